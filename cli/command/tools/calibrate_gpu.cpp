// meshbed calibrate gpu: measures the parameters of the GPU models on the GPU of this process, and writes a profile.

#include <fmt/format.h>

#include <array>
#include <ctime>
#include <ostream>
#include <stdexcept>

#include "cli/command/commands.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/units.h"
#include "testbed/fidelity/gpu/report.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

std::string date_of_today() {
  std::array<char, 16> date{};
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::strftime(date.data(), date.size(), "%Y-%m-%d", &parts);
  return date.data();
}

/// As a list of GPUs may hold it; and a simulated GPU's own name says of itself that it is one.
std::string profile_name(std::string name) {
  constexpr std::string_view kSimulated = "Meshbed simulated ";
  if (name.rfind(kSimulated, 0) == 0) name.erase(0, kSimulated.size());
  for (char& each : name) {
    if (each == ',' || each == ';') each = ' ';
  }
  return name;
}

}  // namespace

int calibrate_gpu_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  std::string device = "0", repeats = "101", bytes, base_name, name, out_path;
  Syntax syntax("calibrate gpu [options]");
  syntax.options.add_options()                                                                                     //
      ("device", po::value(&device)->value_name("N"), "which of the driver's devices, counted from 0; default 0")  //
      ("repeats", po::value(&repeats)->value_name("N"),
       "of each measurement; large copies have a quarter, at most 25; default 101")  //
      ("bytes", po::value(&bytes)->value_name("SIZE"),
       "of a large copy; default: twice the GPU's L2, at least 64M")  //
      ("base", po::value(&base_name)->value_name("NAME|FILE"),
       "whose values stand where this GPU's are not known; default: the model that its name has in it, else H100")  //
      ("name", po::value(&name)->value_name("NAME"), "of the profile; default: as the driver calls the GPU")        //
      ("out", po::value(&out_path)->value_name("FILE"),
       "write the profile there, for cuda run --gpu FILE; default: standard output, and the table to standard error");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  constexpr std::uint64_t kDevices = 1024, kLeastRepeats = 3, kMostRepeats = 100'000;
  GpuMeasureOptions options;
  options.device = static_cast<int>(parse_count("--device", device, 0, kDevices));
  options.repeats = static_cast<int>(parse_count("--repeats", repeats, kLeastRepeats, kMostRepeats));
  if (!bytes.empty()) {
    constexpr std::uint64_t kLeastBytes = 64 * kKiB, kMostBytes = 16 * kGiB;
    const auto size = parse_size_bytes(bytes);
    if (!size) throw std::runtime_error("--bytes: " + size.error().text);
    if (*size < kLeastBytes || *size > kMostBytes) {
      throw std::runtime_error(fmt::format("--bytes {}: it has to be 64K to 16G", bytes));
    }
    options.copy_bytes = *size;
  }
  if (!out_path.empty() && !models::is_gpu_file(out_path)) {
    throw std::runtime_error(
        fmt::format("--out {}: a profile's file ends in .toml, by which --gpu knows it", out_path));
  }
  if (!base_name.empty()) find_gpu_base(base_name, "");  // before minutes have gone by

  const GpuMeasurement measured = measure_gpu(options);
  const std::string date = date_of_today();
  const GpuReport report = report_of(measured, find_gpu_base(base_name, measured.gpu.name), date);
  const std::string title = name.empty() ? measured.gpu.name : name;
  const std::string text = models::gpu_profile_text(
      profile_name(title), fmt::format("{}, by meshbed calibrate gpu on {}", measured.gpu.name, date), report.values);
  if (const auto profile = models::Profile::parse(text, "the profile"); !profile) {
    throw std::runtime_error("calibrate gpu: " + profile.error().text);
  } else if (const auto model = models::gpu_of_profile(*profile); !model) {
    throw std::runtime_error("calibrate gpu: the measured values are not a valid GPU model: " + model.error().text);
  }
  (out_path.empty() ? err : out) << gpu_table(measured, report);
  if (out_path.empty()) {
    out << text;
  } else {
    write_text_file(out_path, text);
    out << "\nprofile: " << out_path << "\n";
  }
  return kExitOk;
}

}  // namespace meshbed::testbed

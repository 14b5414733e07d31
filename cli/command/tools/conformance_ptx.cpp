// meshbed conformance ptx: compares the PTX interpreter with the GPU of this process, form by form, bit by bit.

#include <fmt/format.h>

#include <array>
#include <ctime>
#include <ostream>
#include <stdexcept>

#include "cli/command/commands.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/units.h"
#include "testbed/verify/ptx/twin.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

std::string date_of_comparison() {
  std::array<char, 16> date{};
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::strftime(date.data(), date.size(), "%Y-%m-%d", &parts);
  return date.data();
}

}  // namespace

int conformance_ptx_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  std::string device = "0", count = "65536", seed = "1", out_path;
  std::vector<std::string> only;
  bool lists = false, with_examples = false;
  Syntax syntax("conformance ptx [options]");
  syntax.options.add_options()                                                                                     //
      ("device", po::value(&device)->value_name("N"), "which of the driver's devices, counted from 0; default 0")  //
      ("operands", po::value(&count)->value_name("N"),
       "of each form, in whole blocks of 256 threads; default 65536")                                             //
      ("seed", po::value(&seed)->value_name("N"), "of the operands; default 1")                                   //
      ("only", po::value(&only)->value_name("TEXT"), "forms with this in their name or family; may be repeated")  //
      ("examples", po::bool_switch(&with_examples), "up to eight differences of each form")                       //
      ("list", po::bool_switch(&lists), "the forms")                                                              //
      ("out", po::value(&out_path)->value_name("FILE"), "write all forms there, as CSV");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  constexpr std::uint64_t kDevices = 1024, kMostOperands = 1'000'000;
  const auto ordinal = static_cast<int>(parse_count("--device", device, 0, kDevices));
  const std::uint64_t asked = parse_count("--operands", count, 1, kMostOperands);
  const std::uint64_t from_seed = parse_count("--seed", seed, 0, ~std::uint64_t{0});

  const std::vector<ptx_twin::Form> forms = ptx_twin::all_forms();
  std::vector<const ptx_twin::Form*> chosen;
  for (const ptx_twin::Form& form : forms) {
    bool wanted = only.empty();
    for (const std::string& text : only)
      wanted = wanted || (form.family + " " + form.name).find(text) != std::string::npos;
    if (wanted) chosen.push_back(&form);
  }
  if (chosen.empty()) {
    throw std::runtime_error(fmt::format("--only {}: no form has that in its name; --list names them", only.front()));
  }
  if (lists) {
    for (const ptx_twin::Form* form : chosen) out << fmt::format("{:<12} {}\n", form->family, form->name);
    return kExitOk;
  }
  auto gpu = ptx_twin::GpuSide::open(ordinal);
  if (!gpu) {
    err << "meshbed: conformance ptx: " << gpu.error().text << "\n";
    return kExitUsage;
  }
  const ptx_twin::Gpu& of = (*gpu)->gpu();
  out << fmt::format("the PTX interpreter beside {}{}, {}, target sm_{}, seed {}\n",
                     of.is_simulated ? "Meshbed's simulation, no GPU: " : "", of.name, of.driver_version, of.target,
                     from_seed);
  std::size_t too_new = 0;
  std::vector<const ptx_twin::Form*> tried;
  for (const ptx_twin::Form* form : chosen) {
    if (form->least_target > of.target) {
      ++too_new;
    } else {
      tried.push_back(form);
    }
  }
  if (too_new > 0) out << fmt::format("{} are not looked at: they need a newer GPU\n", counted(too_new, "form"));
  if (tried.empty()) return kExitBroken;
  const std::size_t operands_of_form =
      (asked + ptx_twin::kBlockThreads - 1) / ptx_twin::kBlockThreads * ptx_twin::kBlockThreads;
  ptx_twin::Operands operands(from_seed, operands_of_form);
  ptx_twin::InterpreterSide interpreter(of.target);
  bool differs = false;
  std::vector<ptx_twin::Judgement> all;
  const auto conclude = [&] {
    out << summary_line(all) << std::endl;
    if (out_path.empty()) return;
    write_text_file(out_path, csv_text(all, of, operands, date_of_comparison()));
    out << "forms: " << out_path << "\n";
  };
  try {
    compare(tried, **gpu, interpreter, operands, [&](const ptx_twin::Judgement& one) {
      all.push_back(one);
      differs = differs || one.differs();
      if (const std::string line = difference_line(one); !line.empty()) out << line << std::endl;
      if (with_examples) out << example_lines(one) << std::flush;
    });
  } catch (const std::runtime_error&) {
    conclude();  // what was found before the GPU failed
    throw;
  }
  conclude();
  return differs ? kExitBroken : kExitOk;
}

}  // namespace meshbed::testbed

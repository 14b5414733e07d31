#include "testbed/fidelity/gpu/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <stdexcept>

#include "models/gpu_fields.h"

namespace meshbed::testbed {
namespace {

using models::Basis;

/// Rounded to the precision of a clock.
double rounded(double value) { return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr); }

std::string upper(std::string text) {
  for (char& each : text) each = static_cast<char>(std::toupper(static_cast<unsigned char>(each)));
  return text;
}

/// Single-precision lanes of an SM: results a clock, from CUDA C++ Programming Guide 13.0, arithmetic instructions, and
/// for GPUs that version 13 no longer supports from its earlier editions.
int lanes_of(int major, int minor) {
  constexpr int kHalf = 64, kFull = 128;
  if (major == 7 || (major == 8 && minor == 0) || (major == 6 && minor == 0)) return kHalf;
  return kFull;
}

class Writer {
 public:
  Writer(const GpuMeasurement& all, const GpuBase& base, const std::string& date) : all_(all), base_(base) {
    on_ = fmt::format("{}{}, {}, {}", all.gpu.is_simulated ? "Meshbed's simulation, no GPU: " : "", all.gpu.name,
                      all.gpu.driver_version, date);
  }

  GpuReport report() {
    const GpuAttributes& gpu = all_.gpu;
    attribute("compute_major", gpu.major);
    attribute("compute_minor", gpu.minor);
    attribute("sms", gpu.sms);
    attribute("threads_per_sm", gpu.threads_of_sm, "resident_256", 256);
    attribute("blocks_per_sm", gpu.blocks_of_sm, "resident_32", 1);
    attribute("registers_per_sm", gpu.registers_of_sm);
    attribute("shared_of_sm_bytes", gpu.shared_bytes_of_sm);
    attribute("shared_of_block_bytes", gpu.shared_bytes_of_block);
    attribute("memory_bytes", static_cast<double>(gpu.memory_bytes));
    attribute("l2_bytes", gpu.l2_bytes);
    attribute("integrated", gpu.is_integrated ? 1 : 0);
    arithmetic();
    scaled("memory_GBps", "copy_inside_rate", 2, "each byte is read and written: twice the copy's rate");
    mean("link_GBps", "copy_in_rate", "copy_out_rate");
    mean("pageable_GBps", "pageable_in_rate", "pageable_out_rate");
    copy_start();
    scaled("launch_call_us", "launch_call", 1, "");
    scaled("kernel_gap_us", "kernel_gap", 1, "");
    scaled("contended_atomic_us", "contended_atomic", 1, "");
    scaled("host_flag_us", "word_round_trip", 0.5, "half of the way there and back: each way alone was not measured");
    launch_delay();
    wake();
    for (const char* field : {"graph_call_us", "grid_sync_us"}) leave_out(field, "calibrate gpu does not measure it");
    GpuReport done;
    for (const models::GpuField& field : models::gpu_fields()) {
      const auto found =
          std::find_if(values_.begin(), values_.end(), [&](const auto& v) { return v.field == field.name; });
      if (found != values_.end()) done.values.push_back(*found);
    }
    done.left_out = std::move(left_out_);
    return done;
  }

 private:
  const Measured& of(const char* name) const { return all_.values.at(name); }

  void put(const char* field, const Spread& spread, const std::string& how) {
    // A time that is shown as a difference of others may have a spread on the wrong side of 0.
    const double value = rounded(spread.value);
    values_.push_back(
        {.field = field,
         .value = value,
         .basis = Basis::kMeasured,
         .source = fmt::format("measured on {}: {}", on_, how),
         .range = {std::min(value, std::max(0.0, rounded(spread.low))), std::max(value, rounded(spread.high))}});
  }

  /// Adds an attribute that the driver reports. Counts as measured if the number of resident blocks agrees with it.
  void attribute(const char* field, double value, const char* resident = nullptr, int of_block = 0) {
    models::GpuValue made{.field = field,
                          .value = value,
                          .basis = Basis::kDataSheet,
                          .source = "the driver's attributes of " + on_,
                          .range = {0, 0}};
    if (resident != nullptr && of(resident).spread && all_.gpu.sms > 0) {
      const double waited = of(resident).spread->value;
      const double of_sm = waited / all_.gpu.sms * of_block;
      if (value <= 0) made.value = std::max(1.0, of_sm);  // a driver older than CUDA 11
      if (of_sm == made.value) {
        made.basis = Basis::kMeasured;
        made.source = fmt::format("measured on {}: {}, {:.0f} on {} SMs", on_, of(resident).what, waited, all_.gpu.sms);
      } else {
        // An SM's threads need not be a multiple of a block's. Otherwise fewer blocks mean another user of the GPU.
        left_out_.push_back(
            {field, fmt::format("{:.0f} {} on {} SMs, {:g} an SM, where the driver's attributes say {:g}: "
                                "the profile has the driver's",
                                waited, of(resident).what, all_.gpu.sms, of_sm, made.value)});
      }
    }
    values_.push_back(std::move(made));
  }

  void arithmetic() {
    const GpuAttributes& gpu = all_.gpu;
    if (gpu.clock_khz <= 0) return leave_out("float32_per_second", "the driver does not report the clock");
    constexpr double kHertz = 1000, kOperations = 2;
    const int lanes = lanes_of(gpu.major, gpu.minor);
    values_.push_back(
        {.field = "float32_per_second",
         .value = kOperations * lanes * gpu.sms * gpu.clock_khz * kHertz,
         .basis = Basis::kDataSheet,
         .source = fmt::format("the driver's attributes of {}: {} SMs at {} kHz, {} fused multiply-adds of "
                               "two operations a clock",
                               on_, gpu.sms, gpu.clock_khz, lanes),
         .range = {0, 0}});
  }

  void scaled(const char* field, const char* name, double factor, const std::string& how) {
    const Measured& measured = of(name);
    if (!measured.spread) return leave_out(field, measured.reason);
    const Spread& spread = *measured.spread;
    put(field, {.value = spread.value * factor, .low = spread.low * factor, .high = spread.high * factor},
        measured.what + (how.empty() ? "" : "; " + how));
  }

  void mean(const char* field, const char* one, const char* other) {
    const Measured &first = of(one), &second = of(other);
    for (const Measured* each : {&first, &second}) {
      if (!each->spread) return leave_out(field, each->what + ": " + each->reason);
    }
    put(field,
        {.value = (first.spread->value + second.spread->value) / 2,
         .low = std::min(first.spread->low, second.spread->low),
         .high = std::max(first.spread->high, second.spread->high)},
        fmt::format("the mean of {} ({:.4g}) and {} ({:.4g})", first.what, first.spread->value, second.what,
                    second.spread->value));
  }

  void copy_start() {
    std::vector<double> values;
    Spread spread;
    for (const char* name : {"copy_in_start", "copy_out_start", "copy_inside_start"}) {
      const Measured& each = of(name);
      if (!each.spread) return leave_out("copy_start_us", each.what + ": " + each.reason);
      spread.low = values.empty() ? each.spread->low : std::min(spread.low, each.spread->low);
      spread.high = std::max(spread.high, each.spread->high);
      values.push_back(each.spread->value);
    }
    spread.value = spread_of(values).value;
    put("copy_start_us", spread,
        fmt::format(
            "copies of 4 KiB in a row, beside their bytes, the median of host to device ({:.4g}), device to host "
            "({:.4g}) and inside ({:.4g})",
            values[0], values[1], values[2]));
  }

  /// The time from the call to the kernel's first store, as the host sees it.
  void launch_delay() {
    const Spread call = *of("launch_call").spread, store = *of("launch_to_store").spread;
    const Spread trip = *of("word_round_trip").spread;
    const double value = store.value - call.value;
    if (value < 0) {
      return leave_out("launch_delay_us",
                       fmt::format("a kernel's first store was seen {:.3g} us after its launch began, "
                                   "whose call takes {:.3g} us by itself",
                                   store.value, call.value));
    }
    put("launch_delay_us", {.value = value, .low = store.low - call.high - trip.high, .high = store.high - call.low},
        fmt::format(
            "launch, until the host sees the kernel's first store ({:.4g} us), less the call; the store's way to "
            "the host, at most {:.3g} us, is counted with it",
            store.value, trip.value));
  }

  /// The remaining time of a launch and a wait for it.
  void wake() {
    const Spread end = *of("launch_to_end").spread, store = *of("launch_to_store").spread;
    const Spread gap = *of("kernel_gap").spread, trip = *of("word_round_trip").spread;
    const double value = end.value - store.value - gap.value;
    if (value < 0) {
      return leave_out("wake_us", fmt::format("launch and wait take {:.3g} us, less than launch until the first store "
                                              "({:.3g} us) and a kernel in a row ({:.3g} us)",
                                              end.value, store.value, gap.value));
    }
    put("wake_us",
        {.value = value, .low = end.low - store.high - gap.high, .high = end.high - store.low - gap.low + trip.high},
        fmt::format(
            "launch of an empty kernel and the wait for it ({:.4g} us), less launch until the host sees the first "
            "store ({:.4g} us) and less a kernel in a row ({:.4g} us)",
            end.value, store.value, gap.value));
  }

  void leave_out(const char* name, const std::string& reason) {
    const models::GpuField& field = *models::find_gpu_field(name);
    const double value = models::profile_value(base_.model, field);
    models::GpuValue made{.field = name, .value = value, .basis = Basis::kGuess, .source = "", .range = {0, 0}};
    std::string origin = base_.place;
    std::string trust;
    for (const models::GpuConstant& constant : base_.constants) {
      if (constant.field != field.member) continue;
      origin = constant.source;
      trust = constant.trust;
    }
    made.source = fmt::format("not measured ({}); that of the model {}{}: {}", reason, base_.model.name,
                              trust.empty() ? "" : " (" + trust + ")", origin);
    if (base_.is_this && trust == "data sheet") made.basis = Basis::kDataSheet;
    constexpr double kWide = 4;
    made.range = {value / kWide, value > 0 ? value * kWide : 1};
    values_.push_back(std::move(made));
    left_out_.push_back({name, fmt::format("{}: the profile has {:g} {} of the model {}", reason, value, field.unit,
                                           base_.model.name)});
  }

  const GpuMeasurement& all_;
  const GpuBase& base_;
  std::string on_;
  std::vector<models::GpuValue> values_;
  std::vector<NotMeasured> left_out_;
};

}  // namespace

GpuBase find_gpu_base(const std::string& name, const std::string& gpu) {
  GpuBase base;
  if (models::is_gpu_file(name)) {
    auto read = models::read_gpu(name);
    if (!read) throw std::runtime_error("calibrate gpu: --base: " + read.error().text);
    base.model = std::move(*read);
    base.place = name;
    return base;
  }
  std::string wanted = name;
  for (const std::string& each : models::gpu_names()) {
    if (wanted.empty() && upper(gpu).find(each) != std::string::npos) wanted = each;
  }
  base.is_this = name.empty() && !wanted.empty();
  const models::GpuModel* model = models::find_gpu(wanted.empty() ? "H100" : wanted);
  if (model == nullptr) {
    throw std::runtime_error(
        fmt::format("calibrate gpu: --base {}: there is no such model; there are {}, or give a "
                    "profile's file (.toml)",
                    name, fmt::join(models::gpu_names(), ", ")));
  }
  base.model = *model;
  base.constants = models::provenance(*model);
  return base;
}

GpuReport report_of(const GpuMeasurement& measured, const GpuBase& base, const std::string& date) {
  return Writer(measured, base, date).report();
}

std::string gpu_table(const GpuMeasurement& measured, const GpuReport& report) {
  const GpuAttributes& gpu = measured.gpu;
  std::string text = fmt::format("{}, {}: compute capability {}.{}, {} SMs; large copies are of {} B\n", gpu.name,
                                 gpu.driver_version, gpu.major, gpu.minor, gpu.sms, measured.copy_bytes);
  if (gpu.is_simulated) text += "This is Meshbed's simulated GPU: what is measured is its model.\n";
  text += fmt::format("\n{:<58}{:>10}  {:<7}{:>10}{:>10}{:>9}\n", "", "median", "unit", "10 %", "90 %", "repeats");
  std::vector<const Measured*> rows;
  for (const auto& [name, each] : measured.values) rows.push_back(&each);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto* left, const auto* right) { return left->what < right->what; });
  for (const Measured* row : rows) {
    if (!row->spread) {
      text += fmt::format("{:<58}{:>10}  {}\n", row->what, "-", row->reason);
      continue;
    }
    text += fmt::format("{:<58}{:>10.5g}  {:<7}{:>10.5g}{:>10.5g}{:>9}\n", row->what, row->spread->value, row->unit,
                        row->spread->low, row->spread->high, row->repeats);
  }
  if (!report.left_out.empty()) text += "\nNot in the profile as measured:\n";
  for (const NotMeasured& each : report.left_out) text += fmt::format("  {}: {}\n", each.field, each.reason);
  return text;
}

}  // namespace meshbed::testbed

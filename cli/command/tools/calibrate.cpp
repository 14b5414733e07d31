// meshbed calibrate: the unknown values of a class, fitted to measured files, as a profile.

#include "models/fit/calibrate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <ostream>
#include <set>
#include <stdexcept>

#include "cli/command/commands.h"
#include "models/fit/spread.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/fidelity/peers.h"
#include "testbed/fidelity/profiles.h"
#include "testbed/fidelity/stated_rate.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

bool has_word(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

/// A machine without a profile, described by the measured files.
models::Machine machine_of(const std::string& name, const std::vector<MeasuredFile>& files) {
  models::Machine machine;
  machine.name = name;
  machine.description = files.front().set_up.substr(0, files.front().set_up.find('\n'));
  if (machine.description.empty()) machine.description = name;
  for (const MeasuredFile& file : files) {
    if (!file.topology_class.empty() &&
        std::find(machine.classes.begin(), machine.classes.end(), file.topology_class) == machine.classes.end()) {
      machine.classes.push_back(file.topology_class);
    }
    for (const MeasuredRow& row : file.rows) {
      const models::CollectiveCall& call = row.point.call;
      machine.ranks_per_node = std::max(machine.ranks_per_node, (call.ranks + call.nodes - 1) / call.nodes);
    }
  }
  const std::string& kind = files.front().topology_class;
  if (has_word(kind, "ring")) machine.cabling = models::Cabling::kRing;
  if (has_word(kind, "mesh") || has_word(kind, "direct")) machine.cabling = models::Cabling::kMesh;
  const models::SweepPoint& first = files.front().rows.front().point;
  if (first.expert) {
    machine.transport = models::MachineTransport::kExpert;
  } else if (first.is_message) {
    machine.transport = models::MachineTransport::kMessage;
  }
  const std::string& set_up = files.front().set_up;
  const auto mtu = set_up.find("MTU ");
  if (mtu != std::string::npos) {
    const double bytes = std::atof(set_up.c_str() + mtu + 4);
    const models::ParameterInfo& info = models::info_of(models::MachineParameter::kMtuBytes);
    if (bytes >= info.low && bytes <= info.high) {
      machine.set(models::MachineParameter::kMtuBytes,
                  {bytes, models::Basis::kDataSheet, "path MTU that the measured file's set-up states"});
    }
  }
  return machine;
}

bool crosses_adapters(const MeasuredFile& file) {
  return std::any_of(file.rows.begin(), file.rows.end(), [](const MeasuredRow& row) {
    return row.point.call.nodes > 1 || (row.point.is_message && !row.point.expert);
  });
}

/// The adapters by --rate or by a file's header; throws if bytes cross adapters and neither gives a rate.
void take_rate(models::Machine& machine, const std::string& option, const std::vector<MeasuredFile>& files,
               const std::vector<models::Machine>& profiles) {
  std::optional<StatedRate> rate;
  if (!option.empty()) {
    rate = parse_rate(option);
    if (!rate) {
      throw std::runtime_error(fmt::format(
          "--rate {}: give the rate of a node's adapter as 200Gb/s or 25GB/s, or of several as 8x400Gb/s", option));
    }
  }
  for (const MeasuredFile& file : files) {
    if (!rate && crosses_adapters(file)) rate = file.rate;
  }
  if (!rate) {
    for (const MeasuredFile& file : files) {
      if (!crosses_adapters(file)) continue;
      const models::Machine* const known = file.topology_class.empty() ? nullptr : own_profiles(file, profiles).front();
      if (known != nullptr) {
        for (const models::MachineParameter each :
             {models::MachineParameter::kNics, models::MachineParameter::kNicGBps, models::MachineParameter::kMtuBytes,
              models::MachineParameter::kPacketOverheadBytes}) {
          models::Value value = known->value_of(each);
          value.source = "of the same class, profile " + known->name + ": " + value.source;
          machine.set(each, std::move(value));
        }
        return;
      }
      throw std::runtime_error(fmt::format(
          "{}: the rate of the adapters is not known: its header does not state one. Give --rate 200Gb/s (of "
          "a node; 8x400Gb/s of several adapters), or --base PROFILE for a machine that is described",
          file.path));
    }
    return;
  }
  const std::string source = option.empty() ? "\"" + rate->source + "\" in the measured file's header" : rate->source;
  for (const auto& [parameter, value] : {std::pair{models::MachineParameter::kNics, rate->adapters},
                                         std::pair{models::MachineParameter::kNicGBps, rate->each_GBps}}) {
    const models::ParameterInfo& info = models::info_of(parameter);
    if (value < info.low || value > info.high) {
      throw std::runtime_error(
          fmt::format("{}: {} = {:g} is not plausible; {:g} to {:g}", source, info.name, value, info.low, info.high));
    }
    machine.set(parameter, {value, models::Basis::kDataSheet, source});
  }
}

/// Fitted values at a limit of the plausible range: then another value of the machine is probably wrong. Thresholds and
/// rates that mean "never" and "no limit" do not count.
std::vector<std::string> values_at_bounds(const models::Machine& machine,
                                          const std::vector<models::MachineParameter>& fitted) {
  std::vector<std::string> all;
  for (const models::MachineParameter parameter : fitted) {
    const models::ParameterInfo& info = models::info_of(parameter);
    const double value = machine[parameter];
    constexpr double kNear = 1e-3, kNoLimit = 1e9;
    const bool is_threshold = std::string(info.name).find("_max_bytes") != std::string::npos;
    const bool at_low = info.low > 0 && value <= info.low * (1 + kNear);
    const bool at_high = info.high < kNoLimit && value >= info.high * (1 - kNear);
    if (is_threshold || (!at_low && !at_high)) continue;
    std::string text = fmt::format("{} = {:g} is at the {} end of what is plausible ({:g} to {:g})", info.name, value,
                                   at_low ? "lower" : "upper", info.low, info.high);
    if (parameter == models::MachineParameter::kNicFraction && at_high) {
      text += fmt::format("; are {:g} adapters of {:g} Gb/s right? --rate gives others",
                          machine[models::MachineParameter::kNics], machine[models::MachineParameter::kNicGBps] * 8);
    }
    all.push_back(text);
  }
  return all;
}

/// Removes rows whose variant begins with none of `variants`; throws if no row is left.
void keep_variants(MeasuredFile& file, const std::vector<std::string>& variants) {
  if (variants.empty()) return;
  const auto is_other = [&](const MeasuredRow& row) {
    return std::none_of(variants.begin(), variants.end(),
                        [&](const std::string& each) { return row.variant.rfind(each, 0) == 0; });
  };
  file.rows.erase(std::remove_if(file.rows.begin(), file.rows.end(), is_other), file.rows.end());
  if (file.rows.empty()) {
    throw std::runtime_error(
        fmt::format("{}: no row's variant begins with {}", file.path, fmt::join(variants, " or ")));
  }
}

std::string residual_text(const models::Machine& machine, const MeasuredFile& file) {
  const models::ErrorSummary errors = models::summarise(models::errors_of(machine, file.sweep().points));
  return fmt::format("median {:.1f} %, p90 {:.1f} %, max {:.1f} %, {} points", 100 * errors.median, 100 * errors.p90,
                     100 * errors.max, file.rows.size());
}

}  // namespace

int calibrate_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  if (!arguments.empty() && arguments.front() == "gpu") {
    return calibrate_gpu_command(Arguments(arguments.begin() + 1, arguments.end()), out, err);
  }
  std::vector<std::string> paths, variants;
  std::string name, base, out_path, ranks, rate;
  Syntax syntax("calibrate FILE... --class NAME [options]");
  syntax.operands.add_options()  //
      ("file", po::value(&paths)->required()->value_name("FILE"),
       "measured times (docs/models.md); each file weighs the same. The word gpu alone: calibrate gpu measures the GPU "
       "of "
       "this machine, and has a --help of its own");
  syntax.positions.add("file", -1);
  syntax.options.add_options()                                                            //
      ("class", po::value(&name)->required()->value_name("NAME"), "name of the profile")  //
      ("base", po::value(&base)->value_name("NAME|FILE"),
       "a profile that provides the topology and values from other sources; default: the one of this name, if any")  //
      ("ranks", po::value(&ranks)->value_name("N"), "ranks of every row; overrides the files")                       //
      ("rate", po::value(&rate)->value_name("RATE"),
       "of a node's adapters: 200Gb/s, 25GB/s, 8x400Gb/s; default: what the files' headers state")  //
      ("variant", po::value(&variants)->value_name("TEXT"),
       "only rows whose variant begins with this; may be repeated")  //
      ("out", po::value(&out_path)->value_name("FILE"), "write the profile there; default: standard output");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  if (name.empty()) throw std::runtime_error("--class: a profile has a name");
  MeasuredOptions options;
  constexpr std::uint64_t kRanksMost = 1'000'000;
  if (!ranks.empty()) options.ranks = static_cast<int>(parse_count("--ranks", ranks, 2, kRanksMost));
  std::vector<MeasuredFile> files;
  std::vector<models::Sweep> sweeps;
  std::vector<std::string> names;
  for (const std::string& path : paths) {
    files.push_back(read_measured_file(path, options));
    for (const BadRow& row : files.back().bad) {
      err << fmt::format("meshbed: {}:{}: {}; row left out\n", path, row.line, row.reason);
    }
    keep_variants(files.back(), variants);
    names.push_back(files.back().name);
  }
  const std::vector<models::Machine> profiles = shipped_machines();
  const auto own =
      std::find_if(profiles.begin(), profiles.end(), [&](const models::Machine& each) { return each.name == name; });
  models::Machine machine = machine_of(name, files);
  const bool is_described = !base.empty() || own != profiles.end();
  if (!base.empty()) {
    machine = machine_of_profile(find_profile(base));
  } else if (own != profiles.end()) {
    machine = *own;
  }
  machine.name = name;
  for (MeasuredFile& file : files) {
    for (MeasuredRow& row : file.rows) {
      if (!row.nodes_are_known && !row.point.is_message)
        row.point.call.nodes = models::nodes_of(machine, row.point.call.ranks);
    }
    sweeps.push_back(file.sweep());
  }
  if (!is_described || !rate.empty()) take_rate(machine, rate, files, profiles);
  const std::vector<models::Peer> peers = peers_among(read_measured_folder(), profiles);
  machine = models::with_pool(models::without_fits(machine), peers);
  const std::string source = fmt::format("{}", fmt::join(names, ", "));
  Result<models::Calibration> fit = models::calibrate(machine, sweeps, source);
  if (!fit) {
    err << "meshbed: calibrate: " << fit.error().text << "\n";
    return kExitUsage;
  }
  models::add_ranges(sweeps, &*fit);
  machine = fit->machine;
  machine.fitted_on = names;
  std::map<std::string, std::string> residuals;
  for (const MeasuredFile& file : files) {
    residuals[file.name] = residual_text(machine, file);
    err << file.name << ": " << residuals[file.name] << "\n";
    constexpr double kNoFit = 0.3;
    if (models::summarise(models::errors_of(machine, file.sweep().points)).median > kNoFit) {
      err << fmt::format(
          "meshbed: {}: half of its times are off by more than {:.0f} %: no such machine takes them. It is taken for "
          "{:g} "
          "adapters of {:g} GB/s and {} ranks a node; --base NAME has others\n",
          file.path, 100 * kNoFit, machine[models::MachineParameter::kNics],
          machine[models::MachineParameter::kNicGBps], machine.ranks_per_node);
    }
  }
  for (const models::MachineParameter each : fit->fitted) {
    const models::Value& value = machine.value_of(each);
    err << fmt::format("{} {:.4g}", models::info_of(each).name, value.value);
    if (value.range) err << fmt::format(", {:.4g} to {:.4g} at 90 %", value.range->first, value.range->second);
    err << "\n";
  }
  using Parameter = models::MachineParameter;
  const auto is_rate = [](Parameter each) {
    return each == Parameter::kNicFraction || each == Parameter::kHostCapGBps || each == Parameter::kIntraGBps;
  };
  if (machine.transport != models::MachineTransport::kExpert &&
      std::none_of(fit->fitted.begin(), fit->fitted.end(), is_rate)) {
    err << "no size shows a rate: times grow too little with bytes at the large end; what was known of it stays\n";
  }
  for (const auto& [first, second] : fit->not_apart) {
    err << fmt::format(
        "these files cannot tell {} and {} apart: only together do they fit, each held near what was expected of it\n",
        models::info_of(first).name, models::info_of(second).name);
  }
  for (const std::string& each : values_at_bounds(machine, fit->fitted)) {
    err << "meshbed: warning: " << each << "\n";
  }
  const std::string text = models::profile_text(machine, residuals);
  if (out_path.empty()) {
    out << text;
  } else {
    write_text_file(out_path, text);
  }
  return kExitOk;
}

}  // namespace meshbed::testbed

#include "testbed/fidelity/nearest_class.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <set>
#include <utility>

#include "testbed/fidelity/nearest_expert.h"

namespace meshbed::testbed {
namespace {

using Parameter = models::MachineParameter;

std::set<std::string> word_set(const std::string& text) {
  std::set<std::string> words;
  std::string word;
  for (const char letter : lower_case(text) + " ") {
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0) {
      word += letter;
    } else if (!word.empty()) {
      words.insert(word == "infiniband" ? "ib" : word);
      word.clear();
    }
  }
  return words;
}

/// How alike two that pass the gates are; higher is nearer.
double likeness_of(const MeasuredFile& file, const Gates& wanted, const Gates& has, const models::Machine& machine) {
  double score = 0;
  if (wanted.gbits && has.gbits) score -= std::abs(std::log(*wanted.gbits / *has.gbits));
  if (wanted.link_GBps && has.link_GBps) score -= std::abs(std::log(*wanted.link_GBps / *has.link_GBps));
  score -= 0.5 * std::abs(std::log(static_cast<double>(wanted.ranks_per_node) / has.ranks_per_node));
  constexpr double kWord = 0.15, kKeyword = 0.3;
  const std::set<std::string> own = word_set(file.topology_class);
  std::size_t common = 0;
  for (const std::string& each : machine.classes) {
    const std::set<std::string> its = word_set(each);
    common = std::max<std::size_t>(
        common, std::count_if(its.begin(), its.end(), [&](const std::string& word) { return own.count(word) > 0; }));
  }
  score += kWord * static_cast<double>(common);
  const std::string words = lower_case(file.set_up);
  const auto found = std::count_if(machine.keywords.begin(), machine.keywords.end(), [&](const std::string& each) {
    return words.find(lower_case(each)) != std::string::npos;
  });
  score += found == 0 && !machine.keywords.empty() ? -kKeyword : kKeyword * static_cast<double>(found);
  // What few points were fitted to stands for others last.
  return machine.residuals.empty() ? score - 1 : score;
}

/// Whether the class was fitted to the point's operation, on any ranks; a profile that states no sizes may have been.
bool has_operation(const models::Machine& machine, const models::SweepPoint& point) {
  const std::string wanted = models::measured_operation(point);
  return machine.measured.empty() ||
         std::any_of(machine.measured.begin(), machine.measured.end(),
                     [&](const auto& each) { return each.first.substr(0, each.first.find(',')) == wanted; });
}

/// As many ranks a node and as fast adapters as the header says.
std::string adapt(models::Machine& machine, const Gates& wanted) {
  std::string changed;
  if (wanted.ranks_per_node != machine.ranks_per_node) {
    const double nics = models::nics_used(machine, wanted.ranks_per_node);
    changed += fmt::format(", {} ranks a node", wanted.ranks_per_node);
    if (!wanted.gbits && nics != machine[Parameter::kNics]) {
      machine.set(Parameter::kNics, {nics, models::Basis::kDataSheet, "those that so many GPUs of such a node use"});
      changed += fmt::format(" with {:g} adapters", nics);
    }
    machine.ranks_per_node = wanted.ranks_per_node;
  }
  if (wanted.adapters && *wanted.adapters != machine[Parameter::kNics]) {
    machine.set(Parameter::kNics,
                {*wanted.adapters, models::Basis::kDataSheet, "adapters that the measured file's class states"});
    changed += fmt::format(", {:g} adapters a node", *wanted.adapters);
  }
  const double own_gbits = machine[Parameter::kNics] * machine[Parameter::kNicGBps] * kGbitsOfGByte;
  if (wanted.gbits && std::abs(*wanted.gbits / own_gbits - 1) > 0.01) {
    const double each_GBps = *wanted.gbits / kGbitsOfGByte / machine[Parameter::kNics];
    const models::ParameterInfo& info = models::info_of(Parameter::kNicGBps);
    machine.set(Parameter::kNicGBps, {std::clamp(each_GBps, info.low, info.high), models::Basis::kDataSheet,
                                      "rate that the measured file's class states"});
    changed += fmt::format(", adapters of {:g} Gb/s a node", *wanted.gbits);
  }
  const bool within = machine.transport == models::MachineTransport::kWithin;
  const auto& own_link = machine.values.at(static_cast<std::size_t>(Parameter::kIntraGBps));
  if (within && wanted.link_GBps && own_link && own_link->basis != models::Basis::kCalibrated) {
    const Gates has = gates_of(machine);
    const double factor = has.link_GBps ? *wanted.link_GBps / *has.link_GBps : 1;
    if (std::abs(factor - 1) > 0.01) {
      machine.set(Parameter::kIntraGBps, {own_link->value * factor, models::Basis::kDataSheet,
                                          "rate of the links between the GPUs that the measured file names"});
      changed += fmt::format(", links of {:g} GB/s", *wanted.link_GBps);
    }
  }
  return changed;
}

}  // namespace

/// As of verbs (models/time/machine.cpp).
constexpr const char* kCopied = "without GPUDirect each byte crosses PCIe twice and host memory twice: half the rate";

models::Machine machine_of_header(const Gates& gates) {
  models::Machine machine;
  machine.name = "no-class";
  machine.description = "no class of this kind is known; made from the header: " + gates.text();
  machine.transport = gates.transport;
  machine.cabling = gates.cabling;
  machine.ranks_per_node = gates.ranks_per_node;
  machine.library = gates.library;
  const auto set = [&](Parameter parameter, double value, models::Basis basis, const std::string& source) {
    const models::ParameterInfo& info = models::info_of(parameter);
    machine.set(parameter, {std::clamp(value, info.low, info.high), basis, source});
  };
  const bool is_pcie = gates.link.rfind("PCIe", 0) == 0,
             is_within = gates.transport == models::MachineTransport::kWithin;
  if (gates.link_GBps && (is_within || gates.ranks_per_node > 1)) {
    constexpr double kOfNvLink = 0.8;  // NVLink 5: 18 links of 40.1 GB/s of 50 (NCCL graph/topo.h, SM100_NVLINK_BW)
    set(Parameter::kIntraGBps, *gates.link_GBps * (is_pcie ? 1 : kOfNvLink), models::Basis::kDataSheet,
        "links of the GPU that the header names");
  }
  if (is_within) {
    if (!is_pcie) set(Parameter::kDuplexFraction, 1, models::Basis::kDataSheet, "lanes of either way are apart");
    return machine;
  }
  if (gates.gbits) {
    constexpr double kUsualGbits = 100;
    const double adapters =
        gates.adapters.value_or(std::max(1.0, std::min<double>(gates.ranks_per_node, *gates.gbits / kUsualGbits)));
    const char* const kHeader = "the measured file's header";
    set(Parameter::kNics, adapters, models::Basis::kDataSheet, kHeader);
    set(Parameter::kNicGBps, *gates.gbits / adapters / kGbitsOfGByte, models::Basis::kDataSheet, kHeader);
  }
  if (gates.is_copied) {
    const double line_GBps = machine[Parameter::kNics] * machine[Parameter::kNicGBps];
    set(Parameter::kHostCapGBps, line_GBps / 2, models::Basis::kGuess, kCopied);
  }
  if (gates.is_infiniband) {
    set(Parameter::kPacketOverheadBytes, 26, models::Basis::kDataSheet, "InfiniBand: LRH 8, BTH 12, ICRC 4, VCRC 2");
  }
  return machine;
}

std::optional<Chosen> choose_class(const MeasuredFile& file, const MeasuredRow& row,
                                   const std::vector<models::Machine>& profiles, const PeerSource& peers) {
  if (row.point.expert) {
    auto expert = nearest_expert(file, profiles);
    if (!expert) return std::nullopt;
    return Chosen{std::move(expert->machine), models::Standing::kNearClass, std::move(expert->why)};
  }
  const Gates wanted = gates_of(file, row);
  const bool unknown = wanted.transport == models::MachineTransport::kNone ||
                       (wanted.transport == models::MachineTransport::kWithin && wanted.link.empty());
  if (unknown) return std::nullopt;
  const models::Machine *best = nullptr, *passes = nullptr;
  double most = 0;
  for (const models::Machine& machine : profiles) {
    if (!models::is_of_kind(machine, row.point)) continue;
    const Gates has = gates_of(machine);
    if (!gate_failure(wanted, has).empty()) continue;
    passes = &machine;
    // Kernels that post for themselves have nothing in common but their kind.
    if (!has_operation(machine, row.point)) continue;
    if (!is_near(wanted, has) && machine.transport != models::MachineTransport::kKernel) continue;
    const double score = likeness_of(file, wanted, has, machine);
    if (best != nullptr && score <= most) continue;
    best = &machine;
    most = score;
  }
  const std::string own_class = file.topology_class.empty() ? file.name : file.topology_class;
  if (best == nullptr) {
    Chosen none{.machine = models::with_pool(machine_of_header(wanted), peers()),
                .standing = models::Standing::kNoClass,
                .why = {}};
    none.why = fmt::format(
        "no class of this kind is known: \"{}\" is {}; predicted by the header and {}{}", own_class, wanted.text(),
        models::peers_of(none.machine, peers()).empty() ? "the library's constants"
                                                        : "what the measured classes of its transport have in common",
        passes == nullptr
            ? ""
            : fmt::format(" ({} passes the gates, but its rates differ by more than a quarter, its ranks a "
                          "node by more than a factor of two, or this operation was not measured of it)",
                          passes->name));
    return none;
  }
  Chosen chosen{.machine = *best, .standing = models::Standing::kNearClass, .why = {}};
  for (auto& value : chosen.machine.values) {
    if (!value || value->basis != models::Basis::kCalibrated) continue;
    value->basis = models::Basis::kPooled;  // a fit all the same, which goes where fits go
    value->source = "of the nearest class, " + best->name + ": " + value->source;
  }
  const std::string changed = adapt(chosen.machine, wanted);
  // Without a rate of its own the file's time may be that of any adapter.
  const bool no_rate = !wanted.gbits && wanted.transport != models::MachineTransport::kWithin;
  if (no_rate) chosen.standing = models::Standing::kNoClass;
  chosen.why = fmt::format(
      "no profile is of the class \"{}\"; predicted as the nearest, {} (\"{}\"), which passes the "
      "gates {}{}{}",
      own_class, best->name, best->classes.empty() ? best->description : best->classes.front(), wanted.text(), changed,
      no_rate ? "; the header states no rate, so the class's is assumed" : "");
  return chosen;
}

}  // namespace meshbed::testbed

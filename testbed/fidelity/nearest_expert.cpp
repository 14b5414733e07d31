#include "testbed/fidelity/nearest_expert.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "testbed/fidelity/gates.h"

namespace meshbed::testbed {
namespace {

using models::Machine;
using models::MachineParameter;

bool has_text(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

/// Words that mean one thing each, with what they count.
struct Trait {
  double weight;
  std::vector<const char*> words;
};
const std::vector<Trait>& traits() {
  static const std::vector<Trait> all{
      {3, {"hybridep", "hybrid-ep"}},
      {3, {"deepep"}},
      {3, {"uccl"}},
      {3, {"pplx"}},
      {3, {"mori"}},
      {3, {"nccl ep", "nccl_ep"}},
      {3, {"nvshmem"}},
      {3, {"low-latency", "low latency", "_ll", "-ll"}},
      {3, {"normal", "high-throughput", "high throughput", "hybridep", "intranode"}},
      {2, {"gpu-initiated", "ibgda"}},
      {2, {"cpu-proxied", "cpu proxy", "proxy", "ibrc"}},
      {2, {"nvlink", "h100", "h200", "b200", "b300"}},
      {2, {"xgmi", "mi300", "mi325", "mi350", "mi355"}},
      {2, {"pcie", "without nvlink"}},
      {1, {"efa", "p5.", "p5en"}},
      {1, {"infiniband", " ib"}},
      {1, {"roce", "thor2"}},
  };
  return all;
}

std::vector<bool> traits_in(const std::string& text) {
  std::vector<bool> has;
  for (const Trait& each : traits()) {
    has.push_back(
        std::any_of(each.words.begin(), each.words.end(), [&](const char* word) { return has_text(text, word); }));
  }
  return has;
}

std::string text_of(const Machine& machine) {
  return lower_case(fmt::format("{} {} {} {} {}", machine.name, machine.description, fmt::join(machine.classes, " "),
                                fmt::join(machine.keywords, " "), fmt::join(machine.variants, " ")));
}

bool has_value(const Machine& machine, MachineParameter parameter) {
  return machine.values.at(static_cast<std::size_t>(parameter)).has_value();
}

}  // namespace

std::optional<NearestExpert> nearest_expert(const MeasuredFile& file, const std::vector<Machine>& profiles) {
  const auto row = std::find_if(file.rows.begin(), file.rows.end(),
                                [](const MeasuredRow& each) { return each.point.expert.has_value(); });
  if (row == file.rows.end()) return std::nullopt;
  const std::string header = lower_case(file.topology_class + "\n" + file.set_up);
  std::vector<bool> wanted = traits_in(header + "\n" + lower_case(row->variant));
  const bool is_low = row->point.expert->mode == models::ExpertMode::kLowLatency;
  constexpr std::size_t kLow = 7, kNormal = 8;
  wanted.at(kLow) = is_low;
  wanted.at(kNormal) = !is_low;
  int each_node = 1;
  bool nets = false, one_node = false;
  for (const MeasuredRow& each : file.rows) {
    if (!each.point.expert) continue;
    each_node = std::max(each_node, ranks_of_node(each.point.call));
    (each.point.call.nodes > 1 ? nets : one_node) = true;
  }
  const Machine* best = nullptr;
  double most = 0;
  for (const Machine& machine : profiles) {
    if (machine.transport != models::MachineTransport::kExpert) continue;
    if (nets && !has_value(machine, MachineParameter::kNicFraction)) continue;
    const bool within = has_value(machine, MachineParameter::kIntraGBps) || machine[MachineParameter::kEpByNic] > 0;
    if (one_node && !within) continue;
    const std::vector<bool> has = traits_in(text_of(machine));
    double score = 0;
    for (std::size_t at = 0; at < has.size(); ++at) {
      const double weight = traits().at(at).weight;
      if (wanted[at] && has[at]) score += weight;
      if (wanted[at] != has[at]) score -= weight / 4;
    }
    if (best != nullptr && score <= most) continue;
    best = &machine;
    most = score;
  }
  if (best == nullptr) return std::nullopt;
  NearestExpert nearest{.machine = *best, .why = {}};
  Machine& machine = nearest.machine;
  for (auto& value : machine.values) {
    if (!value || value->basis != models::Basis::kCalibrated) continue;
    value->basis = models::Basis::kPooled;
    value->source = "of the nearest class, " + best->name + ": " + value->source;
  }
  std::string changed;
  if (each_node != machine.ranks_per_node) {
    const double nics = machine[MachineParameter::kNics] / machine.ranks_per_node * each_node;
    machine.set(MachineParameter::kNics, {std::max(1.0, nics), models::Basis::kGuess, "as many for each GPU", {}});
    machine.ranks_per_node = each_node;
    changed += fmt::format(", {} ranks a node", each_node);
  }
  if (const auto links = links_of_gpu(header)) {
    if (links->GBps != machine[MachineParameter::kIntraGBps]) {
      machine.set(MachineParameter::kIntraGBps,
                  {links->GBps, models::Basis::kDataSheet, "links of a " + links->gpu, {}});
      changed += fmt::format(", links of {:g} GB/s ({})", links->GBps, links->gpu);
    }
  }
  if (nets && file.rate) {
    // One adapter alone is meant for each GPU.
    const double adapters = file.rate->adapters > 1 ? file.rate->adapters : each_node;
    const double gbits = adapters * file.rate->each_GBps * kGbitsOfGByte;
    const double each_GBps = gbits / kGbitsOfGByte / machine[MachineParameter::kNics];
    const models::ParameterInfo& info = models::info_of(MachineParameter::kNicGBps);
    if (each_GBps >= info.low && each_GBps <= info.high && each_GBps != machine[MachineParameter::kNicGBps]) {
      machine.set(MachineParameter::kNicGBps,
                  {each_GBps, models::Basis::kDataSheet, "rate that the measured file's header states", {}});
      changed += fmt::format(", adapters of {:g} Gb/s a node", gbits);
    }
  }
  nearest.why = fmt::format(
      "no profile is of the class \"{}\"; predicted as the nearest of dispatch and combine, {} "
      "(\"{}\"){}",
      file.topology_class, best->name, fmt::join(best->classes, "; "), changed);
  return nearest;
}

Machine as_expert(const Machine& machine, const std::vector<Machine>& profiles) {
  if (machine.transport == models::MachineTransport::kExpert) return machine;
  Machine expert = machine;
  expert.transport = models::MachineTransport::kExpert;
  if (!has_value(expert, MachineParameter::kIntraGBps)) {
    constexpr double kPcieGBps = 13.1;  // PCIe 3.0 x16, as models/time/machine.cpp takes it for one node
    const auto links = links_of_gpu(text_of(machine));
    if (links) {
      expert.set(MachineParameter::kIntraGBps,
                 {links->GBps, models::Basis::kDataSheet, "links of a " + links->gpu, {}});
    } else {
      expert.set(
          MachineParameter::kIntraGBps,
          {kPcieGBps, models::Basis::kGuess, "PCIe 3.0 x16: the profile has no links within a node", {{13.1, 900.0}}});
    }
  }
  expert.residuals.clear();
  expert.held_out.clear();
  for (const MachineParameter parameter : {MachineParameter::kLaunchUs, MachineParameter::kNetSimpleUs,
                                           MachineParameter::kNicFraction, MachineParameter::kDuplexFraction}) {
    std::vector<std::pair<double, std::string>> all;
    for (const Machine& each : profiles) {
      if (each.transport == models::MachineTransport::kExpert && has_value(each, parameter)) {
        all.emplace_back(each[parameter], each.name);
      }
    }
    if (all.empty()) continue;
    std::sort(all.begin(), all.end());
    expert.set(parameter, {all.at(all.size() / 2).first, models::Basis::kPooled,
                           fmt::format("median of the {} classes of dispatch and combine that have it", all.size()),
                           std::pair(all.front().first, all.back().first)});
  }
  return expert;
}

}  // namespace meshbed::testbed

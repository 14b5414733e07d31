#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "models/lan/bond.h"
#include "models/lan/vlan.h"
#include "testbed/base/closest_name.h"
#include "testbed/base/units.h"
#include "testbed/scenario/check.h"
#include "testbed/scenario/fault_board.h"
#include "testbed/scenario/placement.h"

namespace meshbed::testbed {
namespace {

enum class TargetKind { kCable, kSwitch, kNode, kPort, kUnknown };

TargetKind target_kind(const models::Cluster& cluster, const std::string& target) {
  for (const auto& cable : cluster.cables) {
    if (cable.name == target) return TargetKind::kCable;
  }
  for (const auto& box : cluster.switches) {
    if (box.name == target) return TargetKind::kSwitch;
  }
  const auto slash = target.find('/');
  const int node = find_node(cluster, target.substr(0, slash));
  if (node < 0) return TargetKind::kUnknown;
  if (slash == std::string::npos) return TargetKind::kNode;
  const int nic = find_nic(cluster.nodes[static_cast<std::size_t>(node)], target.substr(slash + 1));
  return nic < 0 ? TargetKind::kUnknown : TargetKind::kPort;
}

/// Of a cable, a switch's ports or a port; 0: it is none.
std::uint64_t rate_bps_of(const models::Cluster& cluster, const std::string& target) {
  for (const auto& cable : cluster.cables) {
    if (cable.name == target) return cable.rate_bps;
  }
  for (const auto& box : cluster.switches) {
    if (box.name == target) return box.rate_bps;
  }
  if (target_kind(cluster, target) != TargetKind::kPort) return 0;
  const auto slash = target.find('/');
  const auto& node = cluster.nodes[static_cast<std::size_t>(find_node(cluster, target.substr(0, slash)))];
  return node.nics[static_cast<std::size_t>(find_nic(node, target.substr(slash + 1)))].rate_bps;
}

/// An IPv4 subnet's own address, or its broadcast address, which belong to no host (RFC 3021: but in a /31).
bool is_of_whole_subnet(const models::IpPrefix& prefix) {
  if (prefix.address.family != models::Family::kIpv4 || prefix.length_bits >= 31) return false;
  const auto& bytes = prefix.address.bytes;
  const std::uint32_t address = std::uint32_t{bytes[0]} << 24U | std::uint32_t{bytes[1]} << 16U |
                                std::uint32_t{bytes[2]} << 8U | std::uint32_t{bytes[3]};
  const std::uint32_t hosts = ~std::uint32_t{0} >> prefix.length_bits;
  return (address & hosts) == 0 || (address & hosts) == hosts;
}

/// The owner of `address` from the start; empty: none.
std::string owner_of(const models::Cluster& cluster, const models::IpAddress& address) {
  for (const models::Node& node : cluster.nodes) {
    for (const models::Nic& nic : node.nics) {
      for (const models::IpPrefix& prefix : nic.addresses) {
        if (prefix.address == address) return node.name + "/" + nic.device;
      }
    }
  }
  return "";
}

/// What is wrong with the new address of an interface; empty: nothing.
std::string address_problem(const Scenario& scenario, const Fault& fault) {
  const models::PortRef port = ports_of(scenario.cluster, fault).front();
  const auto& own =
      scenario.cluster.nodes[static_cast<std::size_t>(port.node)].nics[static_cast<std::size_t>(port.nic)];
  const auto old = std::find_if(own.addresses.begin(), own.addresses.end(), [&](const models::IpPrefix& prefix) {
    return models::same_subnet(prefix, fault.address);
  });
  if (old == own.addresses.end()) {
    return fmt::format("is in no subnet of {}, which has {}", fault.target,
                       own.addresses.empty() ? "no address" : to_text(own.addresses.front()));
  }
  if (is_of_whole_subnet(fault.address)) return "stands for its whole subnet";
  if (const std::string owner = owner_of(scenario.cluster, fault.address.address); !owner.empty()) {
    return fmt::format("is {}'s", owner);
  }
  for (const Fault& other : scenario.faults) {
    if (other.kind != fault.kind || other.target == fault.target) continue;
    if (other.address.address == fault.address.address) return fmt::format("goes to {} as well", other.target);
  }
  return "";
}

void check_new_address(const Scenario& scenario, const FaultSpec& said, bool has_port, Diagnostics& diagnostics) {
  const Fault& fault = said.value;
  if (fault.kind != "address_change") {
    if (said.has("address")) diagnostics.add(said.at("address"), fmt::format("address: {} has none", fault.kind));
    return;
  }
  if (!said.has("address")) {
    return diagnostics.add(said.place, "[[fault]] address_change needs address, as \"192.168.100.77/24\"");
  }
  if (!has_port || fault.address.length_bits == 0) return;  // refused already
  const std::string problem = address_problem(scenario, fault);
  if (problem.empty()) return;
  diagnostics.add(said.at("address"), fmt::format("address: {} {}; take a free one of its cable's or switch's subnet",
                                                  to_text(fault.address), problem));
}

void check_strangers(const Scenario& scenario, const FaultSpec& said, Diagnostics& diagnostics) {
  const Fault& fault = said.value;
  if (fault.kind != "strangers") {
    for (const char* key : {"from", "connections", "byte_every"}) {
      if (said.has(key)) diagnostics.add(said.at(key), fmt::format("{}: {} has none; strangers have", key, fault.kind));
    }
    return;
  }
  const int from = find_node(scenario.cluster, fault.from);
  if (from < 0) {
    return diagnostics.add(said.has("from") ? said.at("from") : said.place,
                           said.has("from")
                               ? fmt::format("from: there is no node '{}'; nodes are: {}", fault.from.substr(0, 64),
                                             list_names(node_names(scenario.cluster)))
                               : "[[fault]] strangers needs from, the node that they come from");
  }
  for (const int node : {from, find_node(scenario.cluster, fault.target)}) {
    if (node < 0 || scenario.cluster.nodes[static_cast<std::size_t>(node)].management) continue;
    diagnostics.add(said.place, fmt::format("[[fault]] strangers come over the management network, and {} is not on it",
                                            scenario.cluster.nodes[static_cast<std::size_t>(node)].name));
  }
}

bool has_iterations(const Workload& workload) {
  return workload.kind == WorkloadKind::kCollective || workload.kind == WorkloadKind::kReconnect;
}

/// " (did you mean 'x'?); there are a, b": of the kind of target that the fault takes.
std::string targets_hint(const models::Cluster& cluster, const std::string& target, bool nodes, bool cables,
                         bool ports) {
  std::vector<std::string> names;
  for (const models::Node& node : cluster.nodes) {
    if (nodes) names.push_back(node.name);
    for (const models::Nic& nic : node.nics) {
      if (!nodes && !cables) names.push_back(node.name + "/" + nic.device);
    }
  }
  for (const auto& cable : cluster.cables) {
    if (!nodes && !ports) names.push_back(cable.name);
  }
  for (const auto& box : cluster.switches) {
    if (!nodes && !cables && !ports) names.push_back(box.name);
  }
  if (names.empty()) return "";
  const std::string close = closest_name(target, names);
  constexpr std::size_t kListed = 8;
  const std::size_t count = names.size();
  names.resize(std::min(count, kListed));
  return fmt::format("{}; there are {}{}", close.empty() ? "" : fmt::format(" (did you mean '{}'?)", close),
                     list_names(names), count > kListed ? fmt::format(" and {} more", count - kListed) : "");
}

}  // namespace

void check_fault(const Scenario& scenario, const FaultSpec& said, Diagnostics& diagnostics) {
  const Fault& fault = said.value;
  if (!said.has("kind") || !said.has("target")) {
    return diagnostics.add(said.place, "[[fault]] needs kind and target");
  }
  if (fault.kind.empty()) return;  // refused when it was read
  const TargetKind target = target_kind(scenario.cluster, fault.target);
  const std::string& kind = fault.kind;
  const bool on_node = kind.rfind("node_", 0) == 0 || kind == "strangers";
  const bool on_cable = kind.rfind("cable_", 0) == 0;
  const bool on_port = kind.rfind("port_", 0) == 0 || kind == "address_change";
  const bool fits = on_node    ? target == TargetKind::kNode
                    : on_cable ? target == TargetKind::kCable
                    : on_port  ? target == TargetKind::kPort
                               : target != TargetKind::kUnknown && target != TargetKind::kNode;
  if (!fits) {
    diagnostics.add(said.at("target"),
                    fmt::format("target: {} wants {}, and '{}' is none here{}", kind,
                                on_node    ? "a node"
                                : on_cable ? "a cable"
                                : on_port  ? "NODE/DEVICE"
                                           : "a cable, a switch or NODE/DEVICE",
                                fault.target.substr(0, 80),
                                targets_hint(scenario.cluster, fault.target, on_node, on_cable, on_port)));
  }
  check_new_address(scenario, said, target == TargetKind::kPort, diagnostics);
  check_strangers(scenario, said, diagnostics);
  if (fault.point == "iteration") {
    const int last = scenario.workload.iterations - 1;
    if (has_iterations(scenario.workload) && fault.iteration > last) {
      diagnostics.add(said.has("iteration") ? said.at("iteration") : said.at("point"),
                      fmt::format("iteration: {} never comes; the last is {} (workload.iterations = {})",
                                  fault.iteration, last, scenario.workload.iterations));
    }
  } else if (said.has("iteration")) {
    diagnostics.add(said.at("iteration"), "iteration: goes with point = \"iteration\"");
  }
  if (fault.point != "start" && !has_iterations(scenario.workload)) {
    diagnostics.add(
        said.at("point"),
        fmt::format("point: '{}' is of a collective or of reconnect; other workloads have 'start'", fault.point));
  }
  if (fault.duration_ps > 0 &&
      (kind == "cable_up" || kind == "port_up" || kind == "node_continue" || kind == "node_kill")) {
    diagnostics.add(said.at("duration"), fmt::format("duration: {} has none", kind));
  }
  if (said.has("amount") && (on_node || on_cable || on_port)) {
    diagnostics.add(said.at("amount"), fmt::format("amount: {} has none", kind));
  }
  const bool fraction = kind == "loss" || kind == "reorder";
  if (fraction && (fault.unit != AmountUnit::kFraction || fault.amount <= 0 || fault.amount > 1)) {
    diagnostics.add(said.at("amount"), fmt::format("amount: {} needs a fraction above 0, up to 1", kind));
  }
  const AmountUnit unit = kind == "rate" ? AmountUnit::kRate : AmountUnit::kTime;
  if ((kind == "rate" || kind == "delay") && (fault.unit != unit || fault.amount <= 0)) {
    diagnostics.add(said.at("amount"), fmt::format("amount: {} needs a {} above 0", kind,
                                                   kind == "rate" ? "rate, as in '10Gb/s'," : "time, as in '1ms',"));
  }
  const std::uint64_t whole_bps = rate_bps_of(scenario.cluster, fault.target);
  if (kind == "rate" && fault.unit == unit && whole_bps > 0 && fault.amount >= static_cast<double>(whole_bps)) {
    diagnostics.add(said.at("amount"), fmt::format("amount: a rate of {} slows nothing down: {} has {}",
                                                   rate_text(static_cast<std::uint64_t>(fault.amount)), fault.target,
                                                   rate_text(whole_bps)));
  }
}

}  // namespace meshbed::testbed

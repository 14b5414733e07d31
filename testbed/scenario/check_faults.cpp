#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "models/lan/bond.h"
#include "models/lan/vlan.h"
#include "testbed/base/closest_name.h"
#include "testbed/base/units.h"
#include "testbed/scenario/check.h"
#include "testbed/scenario/fault_board.h"
#include "testbed/scenario/placement.h"

namespace meshbed::testbed {
namespace {

enum class Named { kCable, kSwitchLink, kSwitch, kNode, kPort, kNothing };

Named named_by(const models::Cluster& cluster, const std::string& target) {
  for (const auto& cable : cluster.cables) {
    if (cable.name == target) return Named::kCable;
  }
  for (const auto& box : cluster.switches) {
    if (box.name == target) return Named::kSwitch;
  }
  if (!switch_link(cluster, target).empty()) return Named::kSwitchLink;
  const auto slash = target.find('/');
  const int node = find_node(cluster, target.substr(0, slash));
  if (node < 0) return Named::kNothing;
  if (slash == std::string::npos) return Named::kNode;
  const int nic = find_nic(cluster.at(node), target.substr(slash + 1));
  return nic < 0 ? Named::kNothing : Named::kPort;
}

bool fits(FaultTarget wanted, Named named) {
  switch (wanted) {
    case FaultTarget::kNode:
      return named == Named::kNode;
    case FaultTarget::kCable:
      return named == Named::kCable || named == Named::kSwitchLink;
    case FaultTarget::kPort:
      return named == Named::kPort;
    case FaultTarget::kLinks:
      break;
  }
  return named == Named::kCable || named == Named::kSwitch || named == Named::kPort;
}

/// Of a cable, a switch's ports or a port; 0: it is none.
std::uint64_t rate_bps_of(const models::Cluster& cluster, const std::string& target) {
  for (const auto& cable : cluster.cables) {
    if (cable.name == target) return cable.rate_bps;
  }
  for (const auto& box : cluster.switches) {
    if (box.name == target) return box.rate_bps;
  }
  if (named_by(cluster, target) != Named::kPort) return 0;
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
  const auto& own = scenario.cluster.nic_of(port);
  const auto old = std::find_if(own.addresses.begin(), own.addresses.end(), [&](const models::IpPrefix& prefix) {
    return models::same_subnet(prefix, fault.address);
  });
  if (old == own.addresses.end()) {
    return fmt::format("is in no subnet of {}, which has {}", fault.target,
                       own.addresses.empty() ? "no address" : to_text(own.addresses.front()));
  }
  if (is_of_whole_subnet(fault.address)) return "is the address of its whole subnet";
  if (const std::string owner = owner_of(scenario.cluster, fault.address.address); !owner.empty()) {
    return fmt::format("is {}'s", owner);
  }
  for (const Fault& other : scenario.faults) {
    if (other.kind != fault.kind || other.target == fault.target) continue;
    if (other.address.address == fault.address.address) return fmt::format("goes to {} as well", other.target);
  }
  return "";
}

/// Keys that the fault's kind does not have, and others do.
void check_keys(const FaultSpec& said, Diagnostics& diagnostics) {
  std::map<std::string_view, std::vector<std::string>> kinds_by_key;
  for (const FaultInfo& each : kFaultKinds) {
    for (const std::string_view key : keys_of(each.kind)) kinds_by_key[key].emplace_back(each.name);
  }
  const std::string kind = name_of(said.value.kind);
  for (const auto& [view, kinds] : kinds_by_key) {
    const std::string key(view);
    if (!said.has(key) || std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) continue;
    diagnostics.add(said.at(key), fmt::format("{}: {} has none; it is for {}", key, kind, list_names(kinds)));
  }
}

void check_new_address(const Scenario& scenario, const FaultSpec& said, bool has_port, Diagnostics& diagnostics) {
  const Fault& fault = said.value;
  if (fault.kind != FaultKind::kAddressChange) return;
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
  if (fault.kind != FaultKind::kStrangers) return;
  const int from = find_node(scenario.cluster, fault.from);
  if (from < 0) {
    return diagnostics.add(said.has("from") ? said.at("from") : said.place,
                           said.has("from")
                               ? fmt::format("from: there is no node '{}'; nodes are: {}", fault.from.substr(0, 64),
                                             list_names(node_names(scenario.cluster)))
                               : "[[fault]] strangers needs from, the node that they come from");
  }
  for (const int node : {from, find_node(scenario.cluster, fault.target)}) {
    if (node < 0 || scenario.cluster.at(node).management) continue;
    diagnostics.add(said.place, fmt::format("[[fault]] strangers come over the management network, and {} is not on it",
                                            scenario.cluster.at(node).name));
  }
}

void check_refusal(const FaultSpec& said, Diagnostics& diagnostics) {
  const Fault& fault = said.value;
  if (fault.kind != FaultKind::kRefuse) return;
  const std::vector<std::string> names(std::begin(kRefusals), std::end(kRefusals));
  if (std::find(names.begin(), names.end(), fault.status) != names.end()) return;
  const std::string close = closest_name(fault.status, names);
  diagnostics.add(said.at("status"),
                  fmt::format("status: {} is none; expects {}{}", fault.status.substr(0, 80), list_names(names),
                              close.empty() ? "" : " (did you mean " + close + "?)"));
}

/// " (did you mean 'x'?); there are a, b": of the kind of target that the fault takes.
std::string targets_hint(const models::Cluster& cluster, const std::string& target, FaultTarget wanted) {
  std::vector<std::string> names;
  for (const models::Node& node : cluster.nodes) {
    if (fits(wanted, Named::kNode)) names.push_back(node.name);
    for (const models::Nic& nic : node.nics) {
      if (fits(wanted, Named::kPort)) names.push_back(node.name + "/" + nic.device);
    }
  }
  for (const CableLink& link : links_of(cluster)) {
    if (fits(wanted, named_by(cluster, link.name))) names.push_back(link.name);
  }
  for (const auto& box : cluster.switches) {
    if (fits(wanted, Named::kSwitch)) names.push_back(box.name);
  }
  if (names.empty()) return "";
  const std::string close = closest_name(target, names);
  constexpr std::size_t kListed = 8;
  const std::size_t count = names.size();
  names.resize(std::min(count, kListed));
  return fmt::format("{}; there are {}{}", close.empty() ? "" : fmt::format(" (did you mean '{}'?)", close),
                     list_names(names), count > kListed ? fmt::format(" and {} more", count - kListed) : "");
}

void check_amount(const Scenario& scenario, const FaultSpec& said, Diagnostics& diagnostics) {
  const Fault& fault = said.value;
  const FaultInfo& kind = info_of(fault.kind);
  constexpr const char* kWanted[] = {"", "fraction above 0, up to 1", "time, as in '1ms', above 0",
                                     "rate, as in '10Gb/s', above 0"};
  if (kind.amount == AmountUnit::kNone) return;
  const bool is_right = fault.unit == kind.amount && fault.amount > 0;
  if (!is_right || (kind.amount == AmountUnit::kFraction && fault.amount > 1)) {
    return diagnostics.add(said.at("amount"), fmt::format("amount: {} needs a {}", kind.name,
                                                          kWanted[static_cast<std::size_t>(kind.amount)]));
  }
  const std::uint64_t whole_bps = rate_bps_of(scenario.cluster, fault.target);
  if (kind.amount == AmountUnit::kRate && whole_bps > 0 && fault.amount >= static_cast<double>(whole_bps)) {
    diagnostics.add(said.at("amount"), fmt::format("amount: a rate of {} slows nothing down: {} has {}",
                                                   rate_text(static_cast<std::uint64_t>(fault.amount)), fault.target,
                                                   rate_text(whole_bps)));
  }
}

}  // namespace

void check_fault(const Scenario& scenario, const FaultSpec& said, Diagnostics& diagnostics) {
  const Fault& fault = said.value;
  if (!said.has("kind") || !said.has("target")) {
    return diagnostics.add(said.place, "[[fault]] needs kind and target");
  }
  if (!said.is_known) return;  // refused when it was read
  const FaultInfo& kind = info_of(fault.kind);
  const Named named = named_by(scenario.cluster, fault.target);
  if (!fits(kind.target, named)) {
    diagnostics.add(said.at("target"),
                    fmt::format("target: {} needs {}, and '{}' is not one here{}", kind.name, text_of(kind.target),
                                fault.target.substr(0, 80), targets_hint(scenario.cluster, fault.target, kind.target)));
  }
  check_keys(said, diagnostics);
  check_new_address(scenario, said, named == Named::kPort, diagnostics);
  check_strangers(scenario, said, diagnostics);
  check_refusal(said, diagnostics);
  const bool has_iterations = info_of(scenario.workload.kind).has_iterations;
  if (fault.point == "iteration") {
    const int last = scenario.workload.iterations - 1;
    if (has_iterations && fault.iteration > last) {
      diagnostics.add(said.has("iteration") ? said.at("iteration") : said.at("point"),
                      fmt::format("iteration: {} never comes; the last is {} (workload.iterations = {})",
                                  fault.iteration, last, scenario.workload.iterations));
    }
  } else if (said.has("iteration")) {
    diagnostics.add(said.at("iteration"), "iteration: goes with point = \"iteration\"");
  }
  if (fault.point != "start" && !has_iterations) {
    diagnostics.add(said.at("point"), fmt::format("point: '{}' is for {}; other workloads have 'start'", fault.point,
                                                  list_names(names_of(&WorkloadInfo::has_iterations))));
  }
  if (fault.duration_ps > 0 && !kind.lasts) {
    diagnostics.add(said.at("duration"), fmt::format("duration: {} has none", kind.name));
  }
  check_amount(scenario, said, diagnostics);
}

}  // namespace meshbed::testbed

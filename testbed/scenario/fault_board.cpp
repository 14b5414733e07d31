#include "testbed/scenario/fault_board.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "models/lan/bond.h"
#include "models/lan/qsfp.h"
#include "testbed/base/units.h"
#include "testbed/scenario/build.h"

namespace meshbed::testbed {
namespace {

bool shapes(const Fault& fault) {
  return info_of(fault.kind).target == FaultTarget::kLinks || fault.kind == FaultKind::kRefuse;
}

template <typename List>
int index_named(const List& list, const std::string& name) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const auto& each) { return each.name == name; });
  return found != list.end() ? static_cast<int>(found - list.begin()) : -1;
}

std::string amount_text(const Fault& fault) {
  if (fault.kind == FaultKind::kAddressChange) return " to " + to_text(fault.address);
  if (fault.kind == FaultKind::kRefuse) return " " + fault.status;
  if (fault.kind == FaultKind::kStrangers) return fmt::format(" from {}, {} a port,", fault.from, fault.connections);
  switch (info_of(fault.kind).amount) {
    case AmountUnit::kFraction:
      return fmt::format(" {}", fault.amount);
    case AmountUnit::kTime:
      return fmt::format(" {} us", fault.amount / 1e6);
    case AmountUnit::kRate:
      return fmt::format(" {} Gb/s", fault.amount / 1e9);
    case AmountUnit::kNone:
      break;
  }
  return "";
}

}  // namespace

std::string iteration_point(int iteration) { return fmt::format("iteration {}", iteration); }

std::string point_of(const Fault& fault) {
  return fault.point == "iteration" ? iteration_point(fault.iteration) : fault.point;
}

std::set<std::string> points_of(const Scenario& scenario) {
  std::set<std::string> points;
  for (const Fault& fault : scenario.faults) points.insert(point_of(fault));
  return points;
}

std::string text_of(const Scenario& scenario, const FaultStep& step) {
  const Fault& fault = scenario.faults[step.fault];
  return fmt::format("{}{}{} on {}", step.begins ? "" : "end of ", name_of(fault.kind), amount_text(fault),
                     fault.target);
}

std::vector<FaultStep> not_taken(const Scenario& scenario, const std::vector<FaultEvent>& taken) {
  std::vector<FaultStep> left;
  for (std::size_t index = 0; index < scenario.faults.size(); ++index) {
    const FaultStep begins{index, true, scenario.faults[index].at_ps};
    const bool found =
        std::any_of(taken.begin(), taken.end(), [&](const FaultEvent& event) { return event.step == begins; });
    if (!found) left.push_back(begins);
  }
  return left;
}

std::string not_taken_lines(const Scenario& scenario, const std::vector<FaultEvent>& taken) {
  std::string lines;
  for (const FaultStep& step : not_taken(scenario, taken)) {
    lines += "meshbed: fault not reached: " + text_of(scenario, step) + "\n";
  }
  return lines;
}

std::string left_to_hands_line(const Scenario& scenario) {
  if (scenario.faults.empty()) return "";
  return fmt::format("meshbed: {} read, not carried out: these are real machines; pull the cable yourself\n",
                     counted(scenario.faults.size(), "fault"));
}

std::vector<CableLink> links_of(const models::Cluster& cluster) {
  std::vector<CableLink> links;
  const std::vector<int> wires = models::wires(cluster);
  std::map<int, std::size_t> link_of_wire;
  for (std::size_t index = 0; index < cluster.cables.size(); ++index) {
    const models::Cable& cable = cluster.cables[index];
    const auto [found, is_new] = link_of_wire.emplace(wires[index], links.size());
    if (is_new) links.push_back({.name = cable.name, .ports = {}, .box = ""});
    for (const models::PortRef port : {cable.a, cable.b}) links[found->second].ports.push_back(port);
  }
  for (const models::Switch& box : cluster.switches) {
    const std::size_t first = links.size();
    for (const models::PortRef port : box.ports) {
      const auto shares_its_plug = [&](const CableLink& link) {
        const models::PortRef other = link.ports.front();
        const std::string& qsfp = cluster.nic_of(port).qsfp;
        return other.node == port.node && !qsfp.empty() && cluster.nic_of(other).qsfp == qsfp;
      };
      const auto begin = links.begin() + static_cast<std::ptrdiff_t>(first);
      if (const auto same = std::find_if(begin, links.end(), shares_its_plug); same != links.end()) {
        same->ports.push_back(port);
      } else {
        links.push_back({.name = "", .ports = {port}, .box = box.name});
      }
    }
    for (std::size_t at = first; at < links.size(); ++at) {
      const models::PortRef port = links[at].ports.front();
      const auto is_of_node = [&](const CableLink& link) {
        return link.box == box.name && link.ports.front().node == port.node;
      };
      const bool is_only_one = std::count_if(links.begin(), links.end(), is_of_node) == 1;
      links[at].name = (is_only_one ? cluster.at(port.node).name : sim::port_name(cluster, port)) + "-" + box.name;
    }
  }
  return links;
}

std::vector<models::PortRef> switch_link(const models::Cluster& cluster, const std::string& name) {
  if (index_named(cluster.cables, name) >= 0) return {};
  for (const CableLink& link : links_of(cluster)) {
    if (link.box.empty()) continue;
    const auto is_named = [&](models::PortRef port) { return sim::port_name(cluster, port) + "-" + link.box == name; };
    if (link.name == name || std::any_of(link.ports.begin(), link.ports.end(), is_named)) return link.ports;
  }
  return {};
}

std::vector<models::PortRef> ports_of(const models::Cluster& cluster, const Fault& fault) {
  if (const int cable = index_named(cluster.cables, fault.target); cable >= 0) {
    // All functions that share the wire.
    const std::vector<int> wires = models::wires(cluster);
    std::vector<models::PortRef> ports;
    for (std::size_t index = 0; index < cluster.cables.size(); ++index) {
      if (wires[index] != wires[static_cast<std::size_t>(cable)]) continue;
      ports.push_back(cluster.cables[index].a);
      ports.push_back(cluster.cables[index].b);
    }
    return ports;
  }
  if (const int box = index_named(cluster.switches, fault.target); box >= 0) {
    return cluster.switches[static_cast<std::size_t>(box)].ports;
  }
  if (const auto ports = switch_link(cluster, fault.target); !ports.empty()) return ports;
  const auto slash = fault.target.find('/');
  const int node = find_node(cluster, fault.target.substr(0, slash));
  const models::Node& owner = cluster.at(node);
  std::vector<models::PortRef> ports;
  if (slash != std::string::npos) {
    const std::string name = fault.target.substr(slash + 1);
    const models::PortRef port{node, find_nic(owner, name)};
    const models::Bond* const bond = models::bond_of(cluster, port);
    // By the name of a RoCE LAG's device, all of its functions.
    if (bond == nullptr || !bond->lag || models::function_name(owner.nic(port.nic)) == name) return {port};
    for (const int nic : bond->functions) ports.push_back({node, nic});
    return ports;
  }
  for (std::size_t nic = 0; nic < owner.nics.size(); ++nic) ports.push_back({node, static_cast<int>(nic)});
  return ports;
}

FaultBoard::FaultBoard(const Scenario& scenario)
    : scenario_(scenario),
      in_force_(scenario.faults.size()),
      held_down_(scenario.faults.size()),
      stopped_(scenario.cluster.nodes.size()),
      killed_(scenario.cluster.nodes.size()),
      wires_(models::wires(scenario.cluster)) {
  const models::Cluster& cluster = scenario.cluster;
  for (const models::Node& node : cluster.nodes) ports_.emplace_back(node.nics.size());
  for (std::size_t index = 0; index < cluster.cables.size(); ++index) {
    const models::Cable& cable = cluster.cables[index];
    port(cable.a).cable = port(cable.b).cable = static_cast<int>(index);
    port(cable.a).peer = cable.b;
    port(cable.b).peer = cable.a;
  }
  for (std::size_t index = 0; index < cluster.switches.size(); ++index) {
    for (const models::PortRef each : cluster.switches[index].ports) port(each).switch_index = static_cast<int>(index);
  }
  for (std::size_t node = 0; node < ports_.size(); ++node) {
    for (std::size_t nic = 0; nic < ports_[node].size(); ++nic)
      ports_[node][nic].up = cluster.nodes[node].nics[nic].link_up;
  }
  for (std::size_t node = 0; node < ports_.size(); ++node) {
    for (std::size_t nic = 0; nic < ports_[node].size(); ++nic) {
      const models::PortRef each{static_cast<int>(node), static_cast<int>(nic)};
      port(each).carrier = carrier_of(each);
      port(each).addresses = cluster.nodes[node].nics[nic].addresses;
    }
  }
}

std::vector<FaultStep> FaultBoard::steps_from(const std::string& point) const {
  std::vector<FaultStep> steps;
  for (std::size_t index = 0; index < scenario_.faults.size(); ++index) {
    const Fault& fault = scenario_.faults[index];
    if (point_of(fault) != point) continue;
    steps.push_back({index, true, fault.at_ps});
    if (fault.duration_ps > 0) steps.push_back({index, false, fault.at_ps + fault.duration_ps});
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const FaultStep& one, const FaultStep& other) { return one.after_ps < other.after_ps; });
  return steps;
}

/// A rate holds for what a port sends and for what it gets, which the other end of its cable sends.
bool FaultBoard::slows(const Fault& fault, models::PortRef at, const std::vector<models::PortRef>& targets) const {
  const auto is_target = [&](models::PortRef each) {
    return std::find(targets.begin(), targets.end(), each) != targets.end();
  };
  return is_target(at) || (fault.kind == FaultKind::kRate && port(at).cable >= 0 && is_target(port(at).peer));
}

/// Losses multiply, delays add up, and the lowest rate counts.
sim::Shape FaultBoard::shape_of(models::PortRef port) const {
  double kept = 1, in_order = 1;
  sim::Shape shape;
  for (std::size_t index = 0; index < in_force_.size(); ++index) {
    const Fault& fault = scenario_.faults[index];
    if (!in_force_[index] || !shapes(fault)) continue;
    const std::vector<models::PortRef> targets = ports_of(scenario_.cluster, fault);
    if (!slows(fault, port, targets)) continue;
    if (fault.kind == FaultKind::kLoss) kept *= 1 - fault.amount;
    if (fault.kind == FaultKind::kReorder) in_order *= 1 - fault.amount;
    if (fault.kind == FaultKind::kRefuse) {
      shape.refusal = fault.status == kRefusals[0] ? sim::Refusal::kAccess : sim::Refusal::kNotReady;
    }
    if (fault.kind == FaultKind::kDelay) shape.delay_ps += static_cast<Picoseconds>(fault.amount);
    if (fault.kind == FaultKind::kRate) {
      // A wire's functions share what is left of it.
      const bool is_cable = index_named(scenario_.cluster.cables, fault.target) >= 0;
      const std::size_t functions = is_cable ? targets.size() / 2 : 1;
      const auto rate_bps = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(fault.amount) / functions);
      shape.rate_bps = shape.rate_bps == 0 ? rate_bps : std::min(shape.rate_bps, rate_bps);
    }
  }
  shape.loss = 1 - kept;
  shape.reorder = 1 - in_order;
  if (shape.reorder > 0 && shape.delay_ps == 0) shape.delay_ps = kReorderDelay_ps;
  return shape;
}

/// A port_down, or a cable_down of its link to a switch, is in force there.
bool FaultBoard::is_down(models::PortRef at) const {
  return std::any_of(held_down_.begin(), held_down_.end(), [&](const std::vector<models::PortRef>& held) {
    return std::find(held.begin(), held.end(), at) != held.end();
  });
}

/// Ports rather than names: a function of a bond has two.
void FaultBoard::bring_up(const std::vector<models::PortRef>& ports) {
  for (const models::PortRef each : ports) port(each).up = true;
  for (std::vector<models::PortRef>& held : held_down_) {
    std::erase_if(held,
                  [&](models::PortRef port) { return std::find(ports.begin(), ports.end(), port) != ports.end(); });
  }
}

bool FaultBoard::own_end_up(models::PortRef at) {
  const Port& end = port(at);
  if (end.cable < 0 && end.switch_index < 0) return false;
  return end.up && !killed_[static_cast<std::size_t>(at.node)] && !is_down(at);
}

bool FaultBoard::carrier_of(models::PortRef at) {
  const Port& end = port(at);
  if (!own_end_up(at)) return false;
  if (end.cable < 0) return true;
  return !is_pulled(scenario_.cluster.cables[static_cast<std::size_t>(end.cable)].name) && own_end_up(end.peer);
}

void FaultBoard::tell_shapes(FaultSite& site) {
  for (std::size_t node = 0; node < ports_.size(); ++node) {
    for (std::size_t nic = 0; nic < ports_[node].size() && !killed_[node]; ++nic) {
      const models::PortRef each{static_cast<int>(node), static_cast<int>(nic)};
      const sim::Shape now = shape_of(each);
      if (now == port(each).shape) continue;
      port(each).shape = now;
      site.shape(each, now);
    }
  }
}

void FaultBoard::tell_links(FaultSite& site) {
  for (std::size_t node = 0; node < ports_.size(); ++node) {
    for (std::size_t nic = 0; nic < ports_[node].size() && !killed_[node]; ++nic) {
      const models::PortRef each{static_cast<int>(node), static_cast<int>(nic)};
      const bool now = carrier_of(each);
      if (now == port(each).carrier) continue;
      port(each).carrier = now;
      site.set_link(each, now);
    }
  }
}

/// What stands in for the port's own address: the last change that began and has not ended.
models::IpPrefix FaultBoard::address_of(models::PortRef at, const models::IpPrefix& own) const {
  models::IpPrefix now = own;
  for (const std::size_t index : readdressed_) {
    const Fault& fault = scenario_.faults[index];
    if (ports_of(scenario_.cluster, fault).front() == at && models::same_subnet(own, fault.address))
      now = fault.address;
  }
  return now;
}

void FaultBoard::tell_addresses(FaultSite& site) {
  for (std::size_t node = 0; node < ports_.size(); ++node) {
    for (std::size_t nic = 0; nic < ports_[node].size() && !killed_[node]; ++nic) {
      const models::PortRef each{static_cast<int>(node), static_cast<int>(nic)};
      const auto& own = scenario_.cluster.nodes[node].nics[nic].addresses;
      for (std::size_t index = 0; index < own.size(); ++index) {
        const models::IpPrefix now = address_of(each, own[index]);
        const models::IpPrefix before = std::exchange(port(each).addresses[index], now);
        if (now != before) site.change_address(each, before, now);
      }
    }
  }
}

void FaultBoard::tell_nodes(FaultSite& site) {
  for (std::size_t node = 0; node < stopped_.size(); ++node) {
    const bool now = holds(FaultKind::kNodeStop, scenario_.cluster.nodes[node].name);
    if (killed_[node] || now == stopped_[node]) continue;
    stopped_[node] = now;
    now ? site.stop(static_cast<int>(node)) : site.go_on(static_cast<int>(node));
  }
}

bool FaultBoard::is_same_target(const std::string& one, const std::string& other) const {
  if (one == other) return true;
  const auto wire_of = [this](const std::string& name) {
    const int cable = index_named(scenario_.cluster.cables, name);
    return cable < 0 ? -1 : wires_[static_cast<std::size_t>(cable)];
  };
  if (wire_of(one) >= 0) return wire_of(one) == wire_of(other);
  const auto ports = switch_link(scenario_.cluster, one);
  return !ports.empty() && ports == switch_link(scenario_.cluster, other);
}

bool FaultBoard::holds(FaultKind kind, const std::string& target) const {
  for (std::size_t index = 0; index < in_force_.size(); ++index) {
    const Fault& fault = scenario_.faults[index];
    if (in_force_[index] && fault.kind == kind && is_same_target(fault.target, target)) return true;
  }
  return false;
}

/// By any kind of fault that cuts cables.
bool FaultBoard::is_pulled(const std::string& cable) const {
  return std::any_of(kFaultKinds.begin(), kFaultKinds.end(), [&](const FaultInfo& each) {
    return each.target == FaultTarget::kCable && each.cuts && holds(each.kind, cable);
  });
}

void FaultBoard::end_all(FaultKind kind, const std::string& target) {
  for (std::size_t index = 0; index < in_force_.size(); ++index) {
    const Fault& fault = scenario_.faults[index];
    if (fault.kind != kind || !is_same_target(fault.target, target)) continue;
    in_force_[index] = false;
    if (kind == FaultKind::kCableDown) held_down_[index].clear();
  }
}

void FaultBoard::take(const FaultStep& step, FaultSite& site) {
  const Fault& fault = scenario_.faults.at(step.fault);
  if (const auto ended = info_of(fault.kind).ends) {
    end_all(*ended, fault.target);
  } else {
    in_force_[step.fault] = step.begins;
  }
  switch (fault.kind) {
    case FaultKind::kCableDown:  // of a cable is_pulled() finds it
      if (switch_link(scenario_.cluster, fault.target).empty()) break;
      [[fallthrough]];
    case FaultKind::kPortDown:
      held_down_[step.fault] = step.begins ? ports_of(scenario_.cluster, fault) : std::vector<models::PortRef>();
      break;
    case FaultKind::kPortUp:
      bring_up(ports_of(scenario_.cluster, fault));
      break;
    case FaultKind::kNodeKill: {
      const int node = find_node(scenario_.cluster, fault.target);
      if (killed_[static_cast<std::size_t>(node)]) return;
      killed_[static_cast<std::size_t>(node)] = true;
      site.kill(node);
      break;
    }
    case FaultKind::kStrangers:
      site.strangers(step.fault, step.begins);
      break;
    case FaultKind::kAddressChange:
      std::erase(readdressed_, step.fault);
      if (step.begins) readdressed_.push_back(step.fault);
      break;
    default:
      break;  // what is in force says it all
  }
  tell_links(site);
  tell_shapes(site);
  tell_addresses(site);
  tell_nodes(site);
}

}  // namespace meshbed::testbed

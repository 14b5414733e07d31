// Costs: analyse O(ports); neighbours O(sum of its segments' ports); pairs and shape O(sum of squared segment sizes)
// at worst, O(nodes) where one segment holds every node, which is what makes a switch of thousands cheap.

#include "models/topology.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "models/lan/bond.h"
#include "models/lan/qsfp.h"
#include "models/lan/router.h"
#include "models/pcie.h"

namespace meshbed::models {
namespace {

const Nic& nic_of(const Cluster& cluster, PortRef port) { return cluster.nic_of(port); }

const Node& node_of(const Cluster& cluster, PortRef port) { return cluster.at(port.node); }

/// The one with the port's addresses.
const Nic& device_at(const Cluster& cluster, PortRef port) { return nic_of(cluster, device_of(cluster, port)); }

/// The addresses by which two ends of a cable can talk: each lies in the other's prefix.
const IpPrefix* common_subnet(const Nic& a, const Nic& b) {
  if (a.vlan != b.vlan) return nullptr;
  for (const auto& left : a.addresses) {
    for (const auto& right : b.addresses) {
      if (contains(left, right.address) && contains(right, left.address)) return &left;
    }
  }
  return nullptr;
}

/// The first addresses whose subnets overlap though their lengths differ; nullptr: none do.
std::pair<const IpPrefix*, const IpPrefix*> overlapping(const Nic& a, const Nic& b) {
  for (const auto& left : a.addresses) {
    for (const auto& right : b.addresses) {
      if (overlaps(left, right)) return {&left, &right};
    }
  }
  return {nullptr, nullptr};
}

std::string subnets_text(const Nic& nic) {
  std::string text;
  for (const auto& prefix : nic.addresses) text += (text.empty() ? "" : ", ") + subnet_text(prefix);
  return text.empty() ? "no address" : text;
}

/// `rate_of`: what a port carries there.
template <typename RateOf>
void add_segment(Topology& topology, Segment segment, const RateOf& rate_of) {
  const int index = static_cast<int>(topology.segments.size());
  std::sort(segment.ports.begin(), segment.ports.end());
  for (const auto& port : segment.ports) {
    segment.port_rates_bps.push_back(rate_of(port));
    auto& mine = topology.segments_of_node[static_cast<std::size_t>(port.node)];
    if (mine.empty() || mine.back() != index) mine.push_back(index);
  }
  topology.segments.push_back(std::move(segment));
}

CrossedCable crossed_of(const Nic& a, const Nic& b, int index) {
  CrossedCable crossed{index, subnets_text(a), subnets_text(b), "", "", a.vlan, b.vlan};
  const auto [left, right] = overlapping(a, b);
  if (left != nullptr && a.vlan == b.vlan) {
    crossed.a_overlapping = to_text(*left);
    crossed.b_overlapping = to_text(*right);
  }
  return crossed;
}

void add_cable(Topology& topology, const Cluster& cluster, int index) {
  const Cable& cable = cluster.cables[static_cast<std::size_t>(index)];
  // A standby's carries nothing while the active one does.
  if (is_standby(cluster, cable.a) || is_standby(cluster, cable.b)) return;
  const Nic& a_device = device_at(cluster, cable.a);
  const Nic& b_device = device_at(cluster, cable.b);
  const IpPrefix* subnet = common_subnet(a_device, b_device);
  if (subnet == nullptr) {
    topology.crossed.push_back(crossed_of(a_device, b_device, index));
  } else if (nic_of(cluster, cable.a).link_up && nic_of(cluster, cable.b).link_up) {
    add_segment(
        topology,
        {.cable = index,
         .switch_index = -1,
         .subnet = *subnet,
         .ports = {cable.a, cable.b},
         .port_rates_bps = {},
         .vlan = a_device.vlan},
        [&](PortRef port) { return behind_pcie_bps(node_of(cluster, port), nic_of(cluster, port), cable.rate_bps); });
  }
}

bool is_bonded(const Cluster& cluster, const SharedWire& wire) {
  const auto in_bond = [&](PortRef port) { return bond_of(cluster, port) != nullptr; };
  return std::any_of(wire.a.begin(), wire.a.end(), in_bond) || std::any_of(wire.b.begin(), wire.b.end(), in_bond);
}

/// What the functions of a wire's ends make of it: segments by VLAN and subnet, at the cable of their first port, and
/// cables neither of whose ends finds another.
struct WireParts {
  std::vector<Segment> segments;
  std::vector<int> crossed;
};
WireParts parts_of(const Cluster& cluster, const SharedWire& wire) {
  WireParts parts;
  std::set<PortRef> joined;
  std::map<std::pair<std::uint16_t, std::string>, std::size_t> place;
  for (std::size_t from = 0; from < wire.a.size(); ++from) {
    for (const PortRef b : wire.b) {
      const PortRef a = wire.a[from];
      const Nic& left = nic_of(cluster, a);
      const IpPrefix* subnet = common_subnet(left, nic_of(cluster, b));
      if (subnet == nullptr) continue;
      joined.insert({a, b});
      if (!left.link_up || !nic_of(cluster, b).link_up) continue;
      const auto [entry, is_new] = place.try_emplace(std::pair(left.vlan, subnet_text(*subnet)), parts.segments.size());
      if (is_new) {
        parts.segments.push_back(
            {.cable = wire.cables[from], .subnet = *subnet, .ports = {}, .port_rates_bps = {}, .vlan = left.vlan});
      }
      auto& ports = parts.segments[entry->second].ports;
      for (const PortRef port : {a, b}) {
        if (std::find(ports.begin(), ports.end(), port) == ports.end()) ports.push_back(port);
      }
    }
  }
  for (std::size_t at = 0; at < wire.cables.size(); ++at) {
    if (joined.count(wire.a[at]) == 0 && joined.count(wire.b[at]) == 0) parts.crossed.push_back(wire.cables[at]);
  }
  return parts;
}

/// Each in the order of its cable.
void add_cables(Topology& topology, const Cluster& cluster) {
  std::vector<bool> is_shared(cluster.cables.size(), false);
  std::map<int, std::vector<Segment>> segments;
  std::set<int> crossed;
  std::map<PortRef, std::uint64_t> rates_bps;
  for (const SharedWire& wire : shared_wires(cluster)) {
    if (is_bonded(cluster, wire)) continue;
    WireParts parts = parts_of(cluster, wire);
    for (Segment& segment : parts.segments) segments[segment.cable].push_back(std::move(segment));
    crossed.insert(parts.crossed.begin(), parts.crossed.end());
    for (const int index : wire.cables) {
      is_shared[static_cast<std::size_t>(index)] = true;
      const Cable& cable = cluster.cables[static_cast<std::size_t>(index)];
      for (const PortRef port : {cable.a, cable.b}) {
        rates_bps[port] = behind_pcie_bps(node_of(cluster, port), nic_of(cluster, port), cable.rate_bps);
      }
    }
  }
  for (int index = 0; index < static_cast<int>(cluster.cables.size()); ++index) {
    if (!is_shared[static_cast<std::size_t>(index)]) {
      add_cable(topology, cluster, index);
      continue;
    }
    for (Segment& segment : segments[index]) {
      add_segment(topology, std::move(segment), [&](PortRef port) { return rates_bps[port]; });
    }
    if (crossed.count(index) == 0) continue;
    const Cable& cable = cluster.cables[static_cast<std::size_t>(index)];
    topology.crossed.push_back(crossed_of(nic_of(cluster, cable.a), nic_of(cluster, cable.b), index));
  }
}

/// Carries what its device does: its link is up, and no other function of its bond carries it.
bool carries(const Cluster& cluster, PortRef port) {
  return nic_of(cluster, port).link_up && !is_standby(cluster, port);
}

/// What a device's ports on the switch carry: of a RoCE LAG all that carry, together.
std::uint64_t device_rate_bps(const Cluster& cluster, const Switch& box, PortRef device) {
  const auto port_rate = [&](PortRef port) {
    const std::uint64_t own = nic_of(cluster, port).rate_bps;
    const std::uint64_t rate_bps = box.rate_bps == 0 ? own : std::min(box.rate_bps, own);
    return behind_pcie_bps(node_of(cluster, port), nic_of(cluster, port), rate_bps);
  };
  const Bond* const bond = bond_of(cluster, device);
  if (bond == nullptr || !bond->lag) return port_rate(device);
  std::uint64_t joint_bps = 0;
  for (const PortRef port : box.ports) {
    if (device_of(cluster, port) == device && carries(cluster, port)) joint_bps += port_rate(port);
  }
  return joint_bps;
}

void add_switch(Topology& topology, const Cluster& cluster, int index) {
  const Switch& box = cluster.switches[static_cast<std::size_t>(index)];
  // By VLAN and subnet in order of first appearance, so that the answer follows the file.
  std::map<std::pair<std::uint16_t, std::string>, std::size_t> place;
  std::vector<Segment> found;
  for (const auto& function : box.ports) {
    if (!carries(cluster, function)) continue;
    const PortRef port = device_of(cluster, function);
    const Nic& nic = nic_of(cluster, port);
    for (const auto& prefix : nic.addresses) {
      const auto [entry, is_new] = place.emplace(std::pair(nic.vlan, subnet_text(prefix)), found.size());
      if (is_new) {
        found.push_back({.switch_index = index, .subnet = prefix, .ports = {}, .port_rates_bps = {}, .vlan = nic.vlan});
      }
      auto& ports = found[entry->second].ports;
      // Two addresses of one NIC in one subnet are one port, and so are the functions of a RoCE LAG.
      const bool is_there = bond_of(cluster, port) == nullptr
                                ? !ports.empty() && ports.back() == port
                                : std::find(ports.begin(), ports.end(), port) != ports.end();
      if (!is_there) ports.push_back(port);
    }
  }
  for (auto& segment : found) {
    if (segment.ports.size() < 2) continue;
    add_segment(topology, std::move(segment), [&](PortRef device) { return device_rate_bps(cluster, box, device); });
  }
}

/// The port may send and take what its router forwards: a route in this family, from an address with a RoCE v2 GID.
bool is_routed(const Nic& nic, Family family) {
  return std::any_of(nic.routes.begin(), nic.routes.end(), [&](const GatewayRoute& route) {
    const IpPrefix* source = source_of(nic, route);
    if (source == nullptr || source->address.family != family) return false;
    return std::any_of(nic.gids.begin(), nic.gids.end(), [&](const GidEntry& entry) {
      return entry.type == GidType::kRoceV2 && entry.gid == gid_of(source->address);
    });
  });
}

void add_router(Topology& topology, const Cluster& cluster, int index, Family family) {
  const Router& router = cluster.routers[static_cast<std::size_t>(index)];
  Segment segment;
  segment.router = index;
  std::map<PortRef, int> place;  // the port's switch
  std::size_t switches = 0;
  for (const int box : router.switches) {
    const std::size_t before = place.size();
    for (const PortRef& function : cluster.switches[static_cast<std::size_t>(box)].ports) {
      if (!carries(cluster, function)) continue;
      const PortRef port = device_of(cluster, function);
      const Nic& nic = nic_of(cluster, port);
      if (nic.router == index && is_routed(nic, family)) place.emplace(port, box);
    }
    if (place.size() > before) ++switches;
  }
  if (switches < 2) return;
  for (const auto& [port, box] : place) {
    segment.ports.push_back(port);
    segment.port_switches.push_back(box);
  }
  const std::vector<IpPrefix>& addresses = nic_of(cluster, segment.ports.front()).addresses;
  segment.subnet = *std::find_if(addresses.begin(), addresses.end(),
                                 [&](const IpPrefix& prefix) { return prefix.address.family == family; });
  add_segment(topology, std::move(segment), [&](PortRef port) {
    const Switch& box = cluster.switches[static_cast<std::size_t>(place.at(port))];
    return std::min(router.rate_bps, device_rate_bps(cluster, box, port));
  });
}

}  // namespace

std::vector<PortRef> link_local_peers(const Cluster& cluster, PortRef port) {
  std::vector<PortRef> peers;
  for (const Cable& cable : cluster.cables) {
    if (cable.a == port) peers.push_back(cable.b);
    if (cable.b == port) peers.push_back(cable.a);
  }
  for (const Switch& box : cluster.switches) {
    const bool is_on_it = std::find(box.ports.begin(), box.ports.end(), port) != box.ports.end();
    if (is_on_it) peers.insert(peers.end(), box.ports.begin(), box.ports.end());
  }
  const bool has_address = !nic_of(cluster, port).addresses.empty();
  std::erase_if(peers, [&](PortRef peer) {
    return has_address || peer.node == port.node || !nic_of(cluster, peer).addresses.empty();
  });
  return peers;
}

Topology analyse(const Cluster& cluster) {
  Topology topology;
  topology.segments_of_node.resize(cluster.nodes.size());
  add_cables(topology, cluster);
  for (std::size_t i = 0; i < cluster.switches.size(); ++i) add_switch(topology, cluster, static_cast<int>(i));
  for (std::size_t i = 0; i < cluster.routers.size(); ++i) {
    for (const Family family : {Family::kIpv4, Family::kIpv6}) {
      add_router(topology, cluster, static_cast<int>(i), family);
    }
  }
  topology.shared_links = shared_links(cluster);
  return topology;
}

}  // namespace meshbed::models

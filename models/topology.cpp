// Costs: analyse O(ports); neighbours O(sum of its segments' ports); pairs and shape O(sum of squared segment sizes)
// at worst, O(nodes) where one segment holds every node, which is what makes a switch of thousands cheap.

#include "models/topology.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "models/lan/bond.h"
#include "models/lan/qsfp.h"
#include "models/lan/router.h"
#include "models/pcie.h"

namespace meshbed::models {
namespace {

const Nic& nic_of(const Cluster& cluster, PortRef port) {
  return cluster.nodes[static_cast<std::size_t>(port.node)].nics[static_cast<std::size_t>(port.nic)];
}

const Node& node_of(const Cluster& cluster, PortRef port) { return cluster.nodes[static_cast<std::size_t>(port.node)]; }

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
  for (const auto& prefix : nic.addresses) text += (text.empty() ? "" : ", ") + subnet_string(prefix);
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
    crossed.a_overlapping = to_string(*left);
    crossed.b_overlapping = to_string(*right);
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
      const auto [entry, is_new] =
          place.try_emplace(std::pair(left.vlan, subnet_string(*subnet)), parts.segments.size());
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
      const auto [entry, is_new] = place.emplace(std::pair(nic.vlan, subnet_string(prefix)), found.size());
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
bool is_routed(const Nic& nic, IpFamily family) {
  return std::any_of(nic.routes.begin(), nic.routes.end(), [&](const GatewayRoute& route) {
    const IpPrefix* source = source_of(nic, route);
    if (source == nullptr || source->address.family != family) return false;
    return std::any_of(nic.gids.begin(), nic.gids.end(), [&](const GidEntry& entry) {
      return entry.type == GidType::kRoceV2 && entry.gid == gid_of(source->address);
    });
  });
}

void add_router(Topology& topology, const Cluster& cluster, int index, IpFamily family) {
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

/// The segment's ports on one node: a run within the ascending list.
std::span<const PortRef> ports_of(const Segment& segment, int node) {
  const auto begin = std::lower_bound(segment.ports.begin(), segment.ports.end(), PortRef{node, -1});
  const auto end = std::lower_bound(begin, segment.ports.end(), PortRef{node + 1, -1});
  return {begin, end};
}

/// True where one segment holds a port of every node.
bool one_segment_holds_all(const Topology& topology) {
  std::vector<std::size_t> seen(topology.segments_of_node.size(), 0);
  std::size_t number = 0;
  for (const auto& segment : topology.segments) {
    ++number;
    std::size_t nodes = 0;
    for (const auto& port : segment.ports) {
      auto& mark = seen[static_cast<std::size_t>(port.node)];
      if (mark != number) ++nodes;
      mark = number;
    }
    if (nodes == topology.segments_of_node.size()) return true;
  }
  return false;
}

/// Two nodes have a way over a router: no relay of others, who are not heard of across one.
bool joined_by_router(const Topology& topology, int from, int to) {
  const std::vector<int>& mine = topology.segments_of_node[static_cast<std::size_t>(from)];
  const auto is_routed_segment = [&](int index) {
    return topology.segments[static_cast<std::size_t>(index)].router >= 0;
  };
  if (std::none_of(mine.begin(), mine.end(), is_routed_segment)) return false;
  const std::vector<DirectPath> paths = direct_paths(topology, from, to);
  return std::any_of(paths.begin(), paths.end(),
                     [&](const DirectPath& path) { return is_routed_segment(path.segment); });
}

/// Breadth first, over routers or not; predecessor of each node, -1 unreached, itself at the start. Each segment is
/// expanded once: after that all its nodes are known.
std::vector<int> predecessors(const Topology& topology, int from, bool over_routers) {
  std::vector<int> previous(topology.segments_of_node.size(), -1);
  std::vector<bool> expanded(topology.segments.size(), false);
  std::vector<int> queue{from};
  previous[static_cast<std::size_t>(from)] = from;
  for (std::size_t head = 0; head < queue.size(); ++head) {
    const int node = queue[head];
    std::vector<int> reached;
    for (const int index : topology.segments_of_node[static_cast<std::size_t>(node)]) {
      const bool is_left_out = !over_routers && topology.segments[static_cast<std::size_t>(index)].router >= 0;
      if (is_left_out || expanded[static_cast<std::size_t>(index)]) continue;
      expanded[static_cast<std::size_t>(index)] = true;
      for (const auto& port : topology.segments[static_cast<std::size_t>(index)].ports) {
        auto& mine = previous[static_cast<std::size_t>(port.node)];
        if (mine != -1) continue;
        mine = node;
        reached.push_back(port.node);
      }
    }
    std::sort(reached.begin(), reached.end());
    queue.insert(queue.end(), reached.begin(), reached.end());
  }
  return previous;
}

}  // namespace

Topology analyse(const Cluster& cluster) {
  Topology topology;
  topology.segments_of_node.resize(cluster.nodes.size());
  add_cables(topology, cluster);
  for (std::size_t i = 0; i < cluster.switches.size(); ++i) add_switch(topology, cluster, static_cast<int>(i));
  for (std::size_t i = 0; i < cluster.routers.size(); ++i) {
    for (const IpFamily family : {IpFamily::kIpv4, IpFamily::kIpv6}) {
      add_router(topology, cluster, static_cast<int>(i), family);
    }
  }
  topology.shared_links = shared_links(cluster);
  return topology;
}

std::uint64_t joint_rate_bps(const Topology& topology, const std::vector<DirectPath>& paths) {
  std::uint64_t joint_bps = 0;
  for (const bool at_source : {true, false}) {
    // A port may be the end of several paths, and carries no more for it.
    std::vector<PortRate> ports;
    for (const DirectPath& path : paths) {
      const PortRef port = at_source ? path.from : path.to;
      const auto known =
          std::find_if(ports.begin(), ports.end(), [&](const PortRate& each) { return each.port == port; });
      if (known == ports.end()) {
        ports.push_back({port, path.rate_bps});
      } else {
        known->rate_bps = std::max(known->rate_bps, path.rate_bps);
      }
    }
    const std::uint64_t end_bps = joint_rate_bps(topology.shared_links, ports);
    joint_bps = at_source ? end_bps : std::min(joint_bps, end_bps);
  }
  return joint_bps;
}

std::vector<DirectPath> direct_paths(const Topology& topology, int from, int to) {
  std::vector<DirectPath> paths;
  if (from == to) return paths;
  const auto& mine = topology.segments_of_node[static_cast<std::size_t>(from)];
  const auto& theirs = topology.segments_of_node[static_cast<std::size_t>(to)];
  std::vector<int> shared;
  std::set_intersection(mine.begin(), mine.end(), theirs.begin(), theirs.end(), std::back_inserter(shared));
  for (const int index : shared) {
    const auto& segment = topology.segments[static_cast<std::size_t>(index)];
    const auto rate_of = [&](const PortRef& port) {
      return segment.port_rates_bps[static_cast<std::size_t>(&port - segment.ports.data())];
    };
    const auto on_one_switch = [&](const PortRef& a, const PortRef& b) {
      return segment.router >= 0 && segment.port_switches[static_cast<std::size_t>(&a - segment.ports.data())] ==
                                        segment.port_switches[static_cast<std::size_t>(&b - segment.ports.data())];
    };
    for (const auto& a : ports_of(segment, from)) {
      for (const auto& b : ports_of(segment, to)) {
        if (on_one_switch(a, b)) continue;
        paths.push_back({a, b, index, std::min(rate_of(a), rate_of(b))});
      }
    }
  }
  return paths;
}

std::vector<int> neighbours(const Topology& topology, int node) {
  std::vector<int> found;
  for (const int index : topology.segments_of_node[static_cast<std::size_t>(node)]) {
    for (const auto& port : topology.segments[static_cast<std::size_t>(index)].ports) {
      if (port.node != node) found.push_back(port.node);
    }
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::vector<int> hop_counts(const Topology& topology, int from) {
  const auto previous = predecessors(topology, from, false);
  std::vector<int> hops(previous.size(), -1);
  hops[static_cast<std::size_t>(from)] = 0;
  for (std::size_t node = 0; node < previous.size(); ++node) {
    // Walk back to a node whose count is known, then fill in the way: every node is written once.
    std::vector<std::size_t> way;
    std::size_t at = node;
    while (hops[at] < 0 && previous[at] >= 0) {
      way.push_back(at);
      at = static_cast<std::size_t>(previous[at]);
    }
    for (int hop = hops[at]; !way.empty(); way.pop_back()) hops[way.back()] = ++hop;
  }
  for (std::size_t node = 0; node < hops.size(); ++node) {
    const bool is_far = hops[node] < 0 || hops[node] > 1;
    if (is_far && joined_by_router(topology, from, static_cast<int>(node))) hops[node] = 1;
  }
  return hops;
}

std::vector<int> shortest_path(const Topology& topology, int from, int to) {
  const auto previous = predecessors(topology, from, false);
  std::vector<int> path;
  const bool is_near = from == to || previous[static_cast<std::size_t>(to)] == from;
  if (!is_near && joined_by_router(topology, from, to)) return {from, to};
  if (previous[static_cast<std::size_t>(to)] < 0) return path;
  for (int at = to; at != from; at = previous[static_cast<std::size_t>(at)]) path.push_back(at);
  path.push_back(from);
  std::reverse(path.begin(), path.end());
  return path;
}

MissingPairs pairs_without_direct_path(const Topology& topology, std::size_t limit) {
  MissingPairs missing;
  const std::size_t nodes = topology.segments_of_node.size();
  if (one_segment_holds_all(topology)) return missing;
  for (std::size_t i = 0; i < nodes; ++i) {
    const auto near = neighbours(topology, static_cast<int>(i));
    auto next = std::upper_bound(near.begin(), near.end(), static_cast<int>(i));
    missing.count += (nodes - 1 - i) - static_cast<std::size_t>(near.end() - next);
    for (std::size_t j = i + 1; j < nodes && missing.first.size() < limit; ++j) {
      if (next != near.end() && *next == static_cast<int>(j)) {
        ++next;
      } else {
        missing.first.emplace_back(i, j);
      }
    }
  }
  return missing;
}

namespace {

using Neighbourhood = std::vector<std::vector<int>>;  // [node] -> its neighbours, ascending

/// Neighbours of `node` in a torus of these lengths, ascending. A dimension of two has one cable.
std::vector<int> torus_neighbours(int node, const std::vector<int>& lengths) {
  std::vector<int> found;
  int stride = 1;
  for (const int length : lengths) {
    const int place = node / stride % length;
    const int base = node - place * stride;
    for (const int next : {(place + 1) % length, (place + length - 1) % length}) found.push_back(base + next * stride);
    stride *= length;
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

bool is_torus(const Neighbourhood& near, const std::vector<int>& lengths) {
  for (std::size_t node = 0; node < near.size(); ++node) {
    if (near[node] != torus_neighbours(static_cast<int>(node), lengths)) return false;
  }
  return true;
}

/// Tries every way to write `rest` as a product of lengths behind those given. Most fail at node 0.
std::vector<int> find_torus(const Neighbourhood& near, int rest, std::vector<int>& lengths) {
  if (rest == 1) return lengths.size() > 1 && is_torus(near, lengths) ? lengths : std::vector<int>();
  for (int length = 2; length <= rest; ++length) {
    if (rest % length != 0) continue;
    lengths.push_back(length);
    auto found = find_torus(near, rest / length, lengths);
    lengths.pop_back();
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace

Shape classify(const Topology& topology) {
  const std::size_t nodes = topology.segments_of_node.size();
  Shape shape;
  if (nodes == 0) return shape;
  const auto previous = predecessors(topology, 0, true);
  shape.connected = std::none_of(previous.begin(), previous.end(), [](int node) { return node < 0; });
  if (nodes == 1 || !shape.connected) return shape;
  if (nodes > 3 && one_segment_holds_all(topology)) {
    shape.full_mesh = true;
    return shape;
  }
  std::map<std::size_t, std::size_t> nodes_by_degree;
  Neighbourhood near;
  for (std::size_t i = 0; i < nodes; ++i) {
    near.push_back(neighbours(topology, static_cast<int>(i)));
    ++nodes_by_degree[near.back().size()];
  }
  // Connected from here on, so degrees alone tell a cycle, a path and a star from everything else.
  shape.full_mesh = nodes_by_degree[nodes - 1] == nodes;
  shape.ring = nodes >= 3 && nodes_by_degree[2] == nodes;
  shape.line = nodes_by_degree[1] == 2 && nodes_by_degree[2] == nodes - 2;
  shape.star = nodes >= 3 && nodes_by_degree[1] == nodes - 1 && nodes_by_degree[nodes - 1] == 1;
  const bool has_a_name = shape.full_mesh || shape.ring || shape.line || shape.star;
  // Every node of a torus has as many neighbours as any other.
  if (!has_a_name && nodes_by_degree[near.front().size()] == nodes) {
    std::vector<int> lengths;
    shape.torus = find_torus(near, static_cast<int>(nodes), lengths);
  }
  return shape;
}

std::string describe(const Shape& shape, std::size_t nodes) {
  if (nodes == 1) return "one node";
  if (!shape.connected) return "disconnected";
  std::string text;
  const auto add = [&text](bool holds, const char* name) {
    if (holds) text += (text.empty() ? "" : ", ") + std::string(name);
  };
  add(shape.full_mesh, "full mesh");
  add(shape.ring, "ring");
  add(shape.line, "line");
  add(shape.star, "star");
  std::string lengths;
  for (const int length : shape.torus) lengths += (lengths.empty() ? "" : "x") + std::to_string(length);
  add(!shape.torus.empty(), ("torus " + lengths).c_str());
  return text.empty() ? "partial" : text;
}

}  // namespace meshbed::models

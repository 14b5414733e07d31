// Which nodes reach each other in a Topology, and its shape.

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/pcie.h"
#include "models/topology.h"

namespace meshbed::models {
namespace {

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

/// Two nodes have a path over a router, across which discovery finds no relays.
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

bool has_direct_path(const Topology& topology, int from, int to) {
  if (from == to) return false;
  const auto& mine = topology.segments_of_node[static_cast<std::size_t>(from)];
  const auto& theirs = topology.segments_of_node[static_cast<std::size_t>(to)];
  const auto shared = std::find_if(mine.begin(), mine.end(), [&](int index) {
    return std::find(theirs.begin(), theirs.end(), index) != theirs.end();
  });
  if (shared == mine.end()) return false;
  // Of a router's segment the two ports must be on different switches.
  return topology.segments[static_cast<std::size_t>(*shared)].router < 0 || !direct_paths(topology, from, to).empty();
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
  // Connected from here on, so degrees alone distinguish a cycle, a path and a star from other shapes.
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

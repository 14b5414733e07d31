#include "plugin/nccl/tuner_price.h"

#include <algorithm>

#include "plugin/net/wire/piece.h"

namespace meshbed::nccl {
namespace {

/// A tree carries half of the data over each edge, as the other tree has the other half.
constexpr double kHalf = 0.5;

/// Until a thread that sleeps in poll() sees that something has arrived: the median of 5000 wake-ups by a pipe between
/// two cores of an AMD EPYC under a hypervisor (24 to 43 us from the first decile to the last). A machine of its own is
/// faster; the price errs towards fewer cables.
constexpr double kWakeUpUs = 33;
/// A piece is stored before it is sent on, at 100 Gb/s; those behind it travel meanwhile.
constexpr double kBytesPerUs = 12'500;

int lowest_bit(int value) { return value & -value; }

int parent_in_first(int nodes, int node) {
  if (node == 0) return -1;
  const int bit = lowest_bit(node);
  const int above = (node ^ bit) | bit << 1;
  return above < nodes ? above : node ^ bit;
}

void note(const net::MeshGraph& graph, const std::vector<Edge>& edges, Detour& detour) {
  net::CableLoad load(graph);
  for (const Edge& edge : edges) {
    detour.relays = detour.relays || graph.cables(edge.from, edge.to) > 1;
    load.add(edge.from, edge.to, edge.weight);
  }
  detour.load = std::max(1.0, load.most());
}

int extra(const net::MeshGraph& graph, int from, int to) { return graph.cables(from, to) - 1; }

/// Data pass all edges but one, the shortest at best for the others.
int longest_of_ring(const net::MeshGraph& graph) {
  int sum = 0, least = net::MeshGraph::kApart;
  for (const Edge& edge : ring_edges(graph.nodes())) {
    const int more = extra(graph, edge.from, edge.to);
    sum += more;
    least = std::min(least, more);
  }
  return sum - least;
}

int longest_of_tree(const net::MeshGraph& graph) {
  int longest = 0;
  for (const bool second : {false, true}) {
    const std::vector<int> parents = tree_parents(graph.nodes(), second);
    for (int leaf = 0; leaf < graph.nodes(); ++leaf) {
      int sum = 0;
      for (int node = leaf, up; (up = parents[static_cast<std::size_t>(node)]) >= 0; node = up) {
        sum += extra(graph, node, up);
      }
      longest = std::max(longest, sum);
    }
  }
  return longest;
}

int longest_of_pat(const net::MeshGraph& graph) {
  int sum = 0;
  const int nodes = graph.nodes();
  for (int step = 1; step < nodes; step *= 2) {
    int most = 0;
    for (int node = 0; node < nodes; ++node) most = std::max(most, extra(graph, node, (node + step) % nodes));
    sum += most;
  }
  return sum;
}

}  // namespace

std::vector<Edge> ring_edges(int nodes) {
  std::vector<Edge> edges;
  for (int node = 0; node < nodes && nodes > 1; ++node) edges.push_back({node, (node + 1) % nodes, 1});
  return edges;
}

std::vector<int> tree_parents(int nodes, bool second) {
  std::vector<int> parents(static_cast<std::size_t>(nodes), -1);
  const bool mirrored = nodes % 2 == 0;
  // There and back: both are the same for a mirror.
  const auto moved = [&](int node, int by) { return mirrored ? nodes - 1 - node : (node + by + nodes) % nodes; };
  for (int node = 0; node < nodes; ++node) {
    const int parent = parent_in_first(nodes, second ? moved(node, -1) : node);
    parents[static_cast<std::size_t>(node)] = second && parent >= 0 ? moved(parent, 1) : parent;
  }
  return parents;
}

std::vector<Edge> tree_edges(int nodes) {
  std::vector<Edge> edges;
  for (const bool second : {false, true}) {
    const std::vector<int> parents = tree_parents(nodes, second);
    for (int node = 0; node < nodes; ++node) {
      const int parent = parents[static_cast<std::size_t>(node)];
      if (parent < 0) continue;
      edges.push_back({node, parent, kHalf});
      edges.push_back({parent, node, kHalf});
    }
  }
  return edges;
}

std::vector<Edge> pat_edges(int nodes) {
  std::vector<Edge> edges;
  for (int step = 1; step < nodes; step *= 2) {
    // Of the nodes - 1 blocks that a ring's cable carries.
    const double weight = static_cast<double>(std::min(step, nodes - step)) / (nodes - 1);
    for (int node = 0; node < nodes; ++node) edges.push_back({node, (node + step) % nodes, weight});
  }
  return edges;
}

Detour detour_of(const net::MeshGraph& graph, int algorithm) {
  Detour detour;
  switch (algorithm) {
    case kAlgoRing:
      note(graph, ring_edges(graph.nodes()), detour);
      detour.extra_cables = detour.relays ? longest_of_ring(graph) : 0;
      break;
    case kAlgoTree:
    case kAlgoNvlsTree:
      note(graph, tree_edges(graph.nodes()), detour);
      detour.extra_cables = longest_of_tree(graph);
      break;
    case kAlgoPat:
      note(graph, pat_edges(graph.nodes()), detour);
      detour.extra_cables = longest_of_pat(graph);
      break;
    default:
      break;
  }
  return detour;
}

double extra_cable_us(std::size_t size_bytes) {
  return kWakeUpUs + static_cast<double>(std::min<std::size_t>(size_bytes, net::kPieceBytes)) / kBytesPerUs;
}

TunerPrices::TunerPrices(const net::MeshGraph& graph) {
  if (graph.full() || !graph.connected()) return;
  for (int algorithm = 0; algorithm < kAlgorithms; ++algorithm) {
    detours_[static_cast<std::size_t>(algorithm)] = detour_of(graph, algorithm);
    idle_ = idle_ && !of(algorithm).relays;
  }
}

void TunerPrices::apply(const Call& call, float* table) const {
  if (idle_) return;
  const auto entry = [&](int algorithm, int protocol) -> float& {
    return table[algorithm * call.protocols + protocol];
  };
  bool has_ring = false;
  for (int protocol = 0; protocol < call.protocols && call.algorithms > kAlgoRing; ++protocol) {
    has_ring = has_ring || entry(kAlgoRing, protocol) >= 0;
  }
  // An all-reduce passes along the chain twice: to reduce, and to distribute the result.
  const int passes = call.collective == kAllReduce ? 2 : 1;
  for (int algorithm = 0; algorithm < std::min(call.algorithms, kAlgorithms); ++algorithm) {
    const Detour& detour = of(algorithm);
    if (!detour.relays) continue;
    const double latency_us = passes * detour.extra_cables * extra_cable_us(call.size_bytes);
    for (int protocol = 0; protocol < call.protocols; ++protocol) {
      float& cost = entry(algorithm, protocol);
      if (cost < 0) continue;
      cost = drops(algorithm) && has_ring ? kCostIgnore : static_cast<float>(cost * detour.load + latency_us);
    }
  }
}

}  // namespace meshbed::nccl

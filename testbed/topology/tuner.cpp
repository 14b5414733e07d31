#include "testbed/topology/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "plugin/nccl/tuner_price.h"
#include "plugin/net/process/mesh_graph.h"

namespace meshbed::testbed {
namespace {

constexpr std::array<std::pair<int, const char*>, 4> kAlgorithms{
    {{nccl::kAlgoRing, "Ring"}, {nccl::kAlgoTree, "Tree"}, {nccl::kAlgoNvlsTree, "NVLSTree"}, {nccl::kAlgoPat, "PAT"}}};

net::MeshGraph graph_of(const models::Topology& topology, int nodes) {
  net::MeshGraph graph(nodes);
  for (int node = 0; node < nodes; ++node) {
    for (const int other : models::neighbours(topology, node)) {
      if (other < node) graph.join(node, other);
    }
  }
  return graph;
}

/// Two of the job's nodes meet over a router alone: no broadcast crosses it, by which ranks' tuners find each other.
bool has_router_between(const models::Topology& topology, int nodes) {
  for (int from = 0; from < nodes; ++from) {
    for (int to = from + 1; to < nodes; ++to) {
      const std::vector<models::DirectPath> paths = models::direct_paths(topology, from, to);
      const bool only_routed = std::all_of(paths.begin(), paths.end(), [&](const models::DirectPath& path) {
        return topology.segments[static_cast<std::size_t>(path.segment)].router >= 0;
      });
      if (!paths.empty() && only_routed) return true;
    }
  }
  return false;
}

std::string verdict_of(const nccl::TunerPrices& prices, int algorithm) {
  if (prices.drops(algorithm)) return "not taken, while there is a ring";
  return prices.of(algorithm).relays ? "costs more" : "as NCCL prices it";
}

}  // namespace

std::string tuner_report(const models::Cluster& cluster, const models::Topology& topology, int nodes) {
  if (nodes > net::MeshGraph::kNodesMost)
    return "tuner: more nodes than a mesh of cables has: algorithms are NCCL's choice\n";
  if (!cluster.routers.empty() && has_router_between(topology, nodes)) {
    return "tuner: a router lies between ranks, and those behind it are not heard of: algorithms are NCCL's choice\n";
  }
  const net::MeshGraph graph = graph_of(topology, nodes);
  if (graph.full()) return "tuner: a cable between each two nodes: algorithms are NCCL's choice\n";
  if (!graph.connected())
    return "tuner: the ranks' nodes are not joined by their own cables: algorithms are NCCL's choice\n";
  const std::vector<int> order = graph.shortest_tour();
  std::string ring;
  for (const int node : order) ring += (ring.empty() ? "" : " - ") + cluster.at(node).name;
  const nccl::TunerPrices prices(graph.renumbered(order));
  std::string text = fmt::format("tuner, with ranks in the order {}\n{:<10} {:>6} {:>6} {:>13}  {}\n", ring,
                                 "algorithm", "relays", "load", "extra cables", "price");
  for (const auto& [algorithm, name] : kAlgorithms) {
    const nccl::Detour& detour = prices.of(algorithm);
    text += fmt::format("{:<10} {:>6} {:>6.2f} {:>13}  {}\n", name, detour.relays ? "yes" : "no", detour.load,
                        detour.extra_cables, verdict_of(prices, algorithm));
  }
  return text;
}

}  // namespace meshbed::testbed

// The node of each rank, from the scenario's settings.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "models/topology_generate.h"
#include "plugin/base/counted.h"
#include "testbed/base/closest_name.h"
#include "testbed/scenario/build.h"
#include "testbed/scenario/check.h"

namespace meshbed::testbed {
namespace {

const NodeSpec* spec_of(const ScenarioSpec& spec, const std::string& node) {
  const auto found =
      std::find_if(spec.nodes.begin(), spec.nodes.end(), [&](const NodeSpec& each) { return each.name == node; });
  return found != spec.nodes.end() ? &*found : nullptr;
}

/// The file says how many GPUs the node has, and where.
const Place* gpus_place(const ScenarioSpec& spec, const std::string& node) {
  const NodeSpec* own = spec_of(spec, node);
  if (own != nullptr && own->has("gpus")) return &own->at("gpus");
  return spec.topology.has("gpus") ? &spec.topology.at("gpus") : nullptr;
}

/// [node] of the first `nodes`.
std::vector<int> counts_of(const Scenario& scenario, const ScenarioSpec& spec, std::size_t nodes,
                           Diagnostics& diagnostics) {
  const std::vector<int>& said = scenario.workload.ranks_per_node;
  if (spec.workload.ranks_each_node > 0) return std::vector<int>(nodes, spec.workload.ranks_each_node);
  if (!said.empty() && said.size() != nodes) {
    diagnostics.add(spec.workload.at("ranks_per_node"),
                    fmt::format("ranks_per_node: {} for {}; one for each that runs ranks",
                                counted(said.size(), "number"), counted(nodes, "node")));
    return {};
  }
  if (!said.empty()) return said;
  std::vector<int> counts(nodes, 1);
  for (std::size_t node = 0; node < nodes; ++node) {
    const models::Node& each = scenario.cluster.nodes[node];
    // One without any still has a rank: it computes on its CPU.
    if (gpus_place(spec, each.name) != nullptr) counts[node] = std::max(1, static_cast<int>(each.gpus.size()));
  }
  return counts;
}

/// [rank] its node.
std::vector<int> in_order(std::vector<int> counts, bool is_round_robin) {
  std::vector<int> nodes;
  for (bool any = true; any;) {
    any = false;
    for (std::size_t node = 0; node < counts.size(); ++node) {
      const int ranks = is_round_robin ? std::min(counts[node], 1) : counts[node];
      nodes.insert(nodes.end(), static_cast<std::size_t>(ranks), static_cast<int>(node));
      counts[node] -= ranks;
      any = any || ranks > 0;
    }
  }
  return nodes;
}

std::vector<int> listed(const Scenario& scenario, const ScenarioSpec& spec, Diagnostics& diagnostics) {
  std::vector<int> nodes;
  for (const auto& name : spec.workload.placement) {
    const int node = find_node(scenario.cluster, name.value);
    if (node < 0) {
      diagnostics.add(name.place, fmt::format("placement: there is no node '{}'; nodes are: {}",
                                              name.value.substr(0, 64), list_names(node_names(scenario.cluster))));
    } else {
      nodes.push_back(node);
    }
  }
  for (const char* key : {"ranks_per_node", "nodes"}) {
    if (!spec.workload.has(key)) continue;
    diagnostics.add(spec.workload.at(key), fmt::format("{}: placement lists each rank's node; leave it out", key));
  }
  if (spec.workload.placement.empty()) diagnostics.add(spec.workload.at("placement"), "placement: lists no rank");
  return nodes;
}

/// NCCL refuses two ranks on one GPU ("Duplicate GPU detected", src/init.cc), so a number of GPUs that the file gives
/// is the most that a node can run.
void check_gpus(const Scenario& scenario, const ScenarioSpec& spec, const std::vector<int>& counts,
                Diagnostics& diagnostics) {
  for (std::size_t node = 0; node < counts.size(); ++node) {
    const models::Node& each = scenario.cluster.nodes[node];
    const auto gpus = static_cast<int>(each.gpus.size());
    if (gpus == 0 || counts[node] <= gpus || gpus_place(spec, each.name) == nullptr) continue;
    const bool by_list = spec.workload.lists_placement;
    diagnostics.add(spec.workload.at(by_list ? "placement" : "ranks_per_node"),
                    fmt::format("{}: {} gets {}, and has gpus = {}; NCCL runs one rank a GPU",
                                by_list ? "placement" : "ranks_per_node", each.name,
                                counted(static_cast<std::uint64_t>(counts[node]), "rank"), gpus));
    return;  // nodes are mostly alike
  }
}

}  // namespace

void place_ranks(const ScenarioSpec& spec, Scenario& scenario, Diagnostics& diagnostics) {
  const std::size_t all = scenario.cluster.nodes.size();
  std::vector<int> counts(all);
  if (spec.workload.lists_placement) {
    scenario.rank_nodes = listed(scenario, spec, diagnostics);
    for (const int node : scenario.rank_nodes) ++counts[static_cast<std::size_t>(node)];
  } else {
    const auto asked = static_cast<std::size_t>(scenario.workload.nodes);
    counts = counts_of(scenario, spec, asked > 0 ? std::min(asked, all) : all, diagnostics);
    const std::int64_t ranks = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    if (ranks > models::kNodesMax) {
      return diagnostics.add(spec.workload.at("ranks_per_node"),
                             fmt::format("ranks_per_node: {} nodes make {} ranks; the most is {}", counts.size(), ranks,
                                         models::kNodesMax));
    }
    scenario.rank_nodes = in_order(counts, scenario.workload.is_round_robin);
  }
  check_gpus(scenario, spec, counts, diagnostics);
}

}  // namespace meshbed::testbed

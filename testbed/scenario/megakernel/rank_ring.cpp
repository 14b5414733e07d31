#include "testbed/scenario/megakernel/rank_ring.h"

#include <algorithm>
#include <vector>

#include "models/topology.h"
#include "testbed/scenario/placement.h"

namespace meshbed::testbed {
namespace {

constexpr int kRanksLeast = 4;  // of three each is the others' neighbour

/// Of each rank: the nodes of the one before and the one after it, ascending; empty where there is no ring to form.
std::vector<std::vector<int>> ring_neighbours(const Scenario& scenario) {
  const int ranks = ranks_of(scenario);
  if (ranks < kRanksLeast || nodes_with_ranks(scenario) != ranks) return {};
  std::vector<std::vector<int>> result;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<int> both{node_of(scenario, (rank + 1) % ranks), node_of(scenario, (rank + ranks - 1) % ranks)};
    std::sort(both.begin(), both.end());
    result.push_back(std::move(both));
  }
  return result;
}

}  // namespace

bool is_rank_ring(const Scenario& scenario) {
  const auto wanted = ring_neighbours(scenario);
  if (wanted.empty()) return false;
  const models::Topology topology = models::analyse(scenario.cluster);
  for (std::size_t rank = 0; rank < wanted.size(); ++rank) {
    const int node = node_of(scenario, static_cast<int>(rank));
    for (const int other : wanted[rank]) {
      if (!models::has_direct_path(topology, node, other)) return false;
    }
  }
  return true;
}

void choose_forward(Scenario& scenario) {
  Megakernel& kernel = scenario.workload.megakernel;
  if (!kernel.one_shot || !kernel.forward.empty()) return;
  kernel.forward = "plugin";
  const auto wanted = ring_neighbours(scenario);
  if (wanted.empty()) return;
  const models::Topology topology = models::analyse(scenario.cluster);
  for (std::size_t rank = 0; rank < wanted.size(); ++rank) {
    if (models::neighbours(topology, node_of(scenario, static_cast<int>(rank))) != wanted[rank]) return;
  }
  kernel.forward = "ranks";
}

}  // namespace meshbed::testbed

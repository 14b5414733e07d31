#include "cli/workload/outcome.h"

#include "cli/scenario/placement.h"

namespace meshbed::cli {

std::vector<RankError> without_power(const Scenario& scenario, int node, Picoseconds at_ps) {
  const std::string& name = scenario.cluster.nodes[static_cast<std::size_t>(node)].name;
  std::vector<RankError> errors;
  for (int rank = 0; rank < ranks_of(scenario); ++rank) {
    if (node_of(scenario, rank) != node) continue;
    errors.push_back({rank, at_ps, name + " has lost its power (node_kill)", class_of(ErrorCode::kClosed)});
  }
  return errors;
}

}  // namespace meshbed::cli

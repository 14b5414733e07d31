#include "testbed/workload/outcome.h"

#include "testbed/scenario/placement.h"

namespace meshbed::testbed {

std::vector<RankError> without_power(const Scenario& scenario, int node, Picoseconds at_ps) {
  const std::string& name = scenario.cluster.at(node).name;
  std::vector<RankError> errors;
  for (int rank = 0; rank < ranks_of(scenario); ++rank) {
    if (node_of(scenario, rank) != node) continue;
    errors.push_back({rank, at_ps, name + " has lost its power (node_kill)", class_of(ErrorCode::kClosed)});
  }
  return errors;
}

}  // namespace meshbed::testbed

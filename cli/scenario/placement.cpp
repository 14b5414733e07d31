#include "cli/scenario/placement.h"

namespace meshbed::cli {

std::string net_plugin_of(const Scenario& scenario, const BuiltFiles& files) {
  return scenario.workload.net_plugin.empty() ? files.net_plugin : scenario.workload.net_plugin;
}

int ranks_of(const Scenario& scenario) {
  const int nodes = scenario.workload.nodes;
  return (nodes > 0 ? nodes : static_cast<int>(scenario.cluster.nodes.size())) * scenario.workload.ranks_per_node;
}

int node_of(const Scenario& scenario, int rank) { return rank / scenario.workload.ranks_per_node; }

const char* fabric_name(const Scenario& scenario) { return scenario.fabric == "fluid" ? "fluid" : "chunk"; }

}  // namespace meshbed::cli

#pragma once
// Placement: which rank sits on which node, and which net plugin and fabric it has there.

#include <string>

#include "cli/common/files.h"
#include "cli/scenario/scenario.h"

namespace meshbed::cli {

/// The net plugin that the scenario's ranks use: its own file, or the project's.
std::string net_plugin_of(const Scenario& scenario, const BuiltFiles& files);
int ranks_of(const Scenario& scenario);
/// The node that holds `rank`: ranks are placed in blocks of workload.ranks_per_node.
int node_of(const Scenario& scenario, int rank);

/// The fabric that a run uses: what the scenario says, "chunk" for auto.
const char* fabric_name(const Scenario& scenario);

}  // namespace meshbed::cli

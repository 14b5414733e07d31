#pragma once
// Placement: the node and the NICs of each rank, with its net plugin and fabric.

#include <string>
#include <vector>

#include "models/topology.h"
#include "testbed/base/files.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

/// The net plugin's file that the scenario's ranks use: its own, or one of the project's ("mesh", which is meant where
/// there is none, and "local").
std::string net_plugin_of(const Scenario& scenario, const BuiltFiles& files);
int ranks_of(const Scenario& scenario);
/// The node that holds `rank`.
int node_of(const Scenario& scenario, int rank);
int ranks_on(const Scenario& scenario, int node);
/// [node] the same of all.
std::vector<int> ranks_by_node(const Scenario& scenario);
/// [rank] its place among the ranks of its node, in their order: which of the node's GPUs is its own.
std::vector<int> local_ranks(const Scenario& scenario);
/// The nodes from the first to the last that holds a rank; those between that hold none count.
int nodes_of(const Scenario& scenario);
/// How many nodes hold ranks.
int nodes_with_ranks(const Scenario& scenario);
/// Rank r alone on node r, for all ranks.
bool is_one_a_node(const Scenario& scenario);
/// Most ranks on one node.
int ranks_per_node_most(const Scenario& scenario);
/// "2", or where the nodes differ "7 or 8", "0 to 8".
std::string ranks_per_node_text(const Scenario& scenario);

/// The node's NICs that the net plugin opens, in their order: device d is number d of them. Those with a link to
/// another one, without a management port (docs/topology.md), unless the environment chooses (see devices_by_rank()).
std::vector<int> device_nics(const Scenario& scenario, const models::Topology& topology, int node);

/// [rank] the devices that NCCL would give the rank's channels, by its GPU's place: those on the GPU's PCIe link or
/// switch, or where that is not said an even part of the node's devices. A device is an index into device_nics().
/// Empty: all, as where a node's only rank has them, or where the environment chooses among them
/// (NCCL_IB_HCA, NCCL_IB_GID_INDEX, NCCL_MESH_USE_MANAGEMENT). `topology`: of the scenario's cluster.
/// Cost: O(ranks + nodes + NICs).
std::vector<std::vector<int>> devices_by_rank(const Scenario& scenario, const models::Topology& topology);

/// The fabric that a run uses: what the scenario says, "chunk" for auto.
const char* fabric_name(const Scenario& scenario);

}  // namespace meshbed::testbed

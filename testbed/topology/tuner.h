#pragma once
// The decisions of the plugin's tuner for a cabling, by the plugin's own functions on the scenario's cables.

#include <string>

#include "models/cluster.h"
#include "models/topology.h"

namespace meshbed::testbed {

/// For NCCL's algorithms that send between nodes: whether they relay, the load of the cable that has most (1: as under
/// a ring on cables), the extra cables on the longest chain of sends, and what becomes of their prices. The first
/// `nodes` nodes of the cluster run ranks.
std::string tuner_report(const models::Cluster& cluster, const models::Topology& topology, int nodes);

}  // namespace meshbed::testbed

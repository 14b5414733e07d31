#pragma once
// Lines of a report about the cluster: its size, and the subnet that two ports share.

#include <string>

#include "sim/trace/recorder.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

/// "4 nodes, 8 NICs, 4 cables, 0 switches; 4 ranks".
std::string topology_line(const Scenario& scenario);

/// "assumed: rate of s1/rocep1s0f0; MTU of ..."; empty: all values of the scenario were known (Scenario::assumed).
std::string assumed_line(const Scenario& scenario);

/// The subnet of the source port's first address that the destination port shares; where they share none "routed", if
/// they have one router, "link-local" if neither has an address, or "-".
std::string shared_subnet(const models::Cluster& cluster, const sim::PairKey& key);

}  // namespace meshbed::testbed

#pragma once
// Relay: what traffic between nodes that share no cable must cost. Pure functions of a Topology.

#include <cstdint>
#include <vector>

#include "models/topology.h"
#include "plugin/base/units.h"

namespace meshbed::models {

/// Bytes that one node has for another.
struct Flow {
  int from = 0, to = 0;
  std::uint64_t bytes = 0;
};

/// A lower bound for relaying over any paths: each byte crosses as many hops as are between its ends, and all ports
/// together send no more than their rates (no headers counted). Flows without a path are left out. 0: no bound. Cost: a
/// search over the topology for each node that sends.
Picoseconds relay_bound_ps(const Topology& topology, const std::vector<Flow>& flows);

/// Of the nodes 0 .. nodes-1 as a ring, between those that are not next to each other on it: hops on average, where a
/// pair without a way counts as `nodes` hops. 1 where there are none. Cost: a search over the topology for each node.
double mean_far_hops(const Topology& topology, int nodes);

/// The rate of the best chain of hops from one node to another, one cable or many: that of its slowest hop. 0: there is
/// none. Cost: hops times nodes.
std::uint64_t widest_chain_bps(const Topology& topology, int from, int to);

}  // namespace meshbed::models

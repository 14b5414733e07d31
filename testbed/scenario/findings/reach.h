#pragma once
// Reach: the nodes that cannot reach each other with a scenario's cabling, known before a run. Pure functions.

#include <cstddef>
#include <vector>

#include "models/topology.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

/// Two nodes that hang together, but by a chain of more cables than one of them lets its messages take
/// (NCCL_MESH_MAX_RELAY_HOPS, net::Config::max_relay_hops()).
struct BeyondRelays {
  int from = 0, to = 0;
  int cables = 0;  // of the shortest chain
  int limit = 0;   // of the one whose messages do not get there
};
/// The most cables of a chain that the node's messages take.
int relay_hop_limit(const models::Node& node);

/// The cluster as Meshbed's plugin takes it: a NIC whose routes it does not take (NCCL_MESH_ALLOW_ROUTED=0, or a table
/// of their own without NCCL_MESH_ALLOW_ROUTED=1) has no router, and one that the environment leaves out
/// (models::left_out_nics()) has no link.
models::Cluster as_plugin_takes_it(const models::Cluster& cluster);

struct AllBeyondRelays {
  std::uint64_t count = 0;  // pairs, each once
  std::vector<BeyondRelays> first;
};
/// Among the first `nodes` nodes, in order, `most` of them named.
AllBeyondRelays all_beyond_relays(const models::Cluster& cluster, const models::Topology& topology, int nodes,
                                  std::size_t most);

}  // namespace meshbed::testbed

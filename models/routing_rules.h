#pragma once
// Routing rules: which NIC others aim with at a peer, and whether it gets there. Pure functions of a cluster and its
// topology, to compare with what Meshbed's own plugin does.
//
// Sources. The ancestor: autoscriptlabs/nccl-mesh-plugin, its connect() as of August 2026: the first NIC whose subnet
// is one of the peer's, those of 50 Gb/s and more first; whatever device was asked for. NCCL: net_ib of 2.30.7, where
// the listener names up to two GIDs of its device, and the connector keeps its device if each of its ports shares a
// subnet with them, else takes the first device of which that is true, else keeps its device all the same; prefixes of
// 24 bits, whatever the interfaces say (NCCL_IB_SUBNET_PREFIX_LEN). Without NCCL_IB_SUBNET_AWARE_ROUTING, as it comes,
// device d aims at device d.

#include <array>

#include "models/cluster.h"
#include "models/topology.h"

namespace meshbed::models {

enum class RoutingRule { kAncestor, kNccl, kNcclSubnetAware, kNcclSubnetAwareFused };
inline constexpr std::array kRoutingRules{RoutingRule::kAncestor, RoutingRule::kNccl, RoutingRule::kNcclSubnetAware,
                                          RoutingRule::kNcclSubnetAwareFused};
const char* describe(RoutingRule rule);

enum class Aim {
  kReached,
  kRefused,  // an error at once, which says so
  kLost,     // aims with a NIC at another one to which it has no cable: a time-out, minutes later
};

struct Aimed {
  Aim aim = Aim::kLost;
  int nic = -1;  // of the sender; -1: none
};

/// What node `from` does for a channel on device `device` to node `to`. Devices are the node's NICs with a live link
/// and an address, in its order; `device` counts modulo their number. Nodes without any refuse.
Aimed aim_of(RoutingRule rule, const Cluster& cluster, const Topology& topology, int from, int to, int device);

/// The node's devices: positions in Node::nics.
std::vector<int> live_nics(const Cluster& cluster, const Topology& topology, int node);

}  // namespace meshbed::models

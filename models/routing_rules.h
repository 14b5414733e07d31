#pragma once
// Routing rules: which NIC other transports use for a peer, and whether it reaches the peer. Pure functions of a
// cluster and its topology, to compare with Meshbed's own plugin.
//
// Sources. The ancestor: autoscriptlabs/nccl-mesh-plugin, its connect() as of August 2026: the first NIC whose subnet
// is one of the peer's, those of 50 Gb/s and more first; the requested device is ignored. NCCL: version 2.30.7, of
// which each function below names its lines; "connect.cc" is src/transport/net_ib/connect.cc, "topo.cc"
// src/graph/topo.cc.
//
// Nomenclature: channel c - the one that the sender opens on its device c, and the receiver listens for on its own
// device c, each modulo their number; function - a NIC, one of those that a device is made of.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/cluster.h"
#include "models/topology.h"

namespace meshbed::models {

enum class Aim {
  kReached,
  kRefused,  // an error at once
  kLost,     // aims with a NIC at another one to which it has no cable: a time-out, minutes later
};

struct Aimed {
  Aim aim = Aim::kLost;
  int nic = -1;  // of the sender; -1: none
};

/// The variables that decide which of its NICs stock NCCL takes, and whether it starts. nccl-mesh-plugin reads none of
/// them (mesh_plugin.c 2322-2352 and mesh_routing.c 1124-2075 at 679a394 read NCCL_MESH_ names only), and stands under
/// NCCL_SOCKET_IFNAME alone, which NCCL's bootstrap reads before any plugin is loaded.
inline constexpr std::array kRoutingVariables{
    "NCCL_IB_HCA",         "NCCL_SOCKET_IFNAME",        "NCCL_IB_SUBNET_AWARE_ROUTING",
    "NCCL_IB_MERGE_NICS",  "NCCL_IB_SUBNET_PREFIX_LEN", "NCCL_IB_GID_INDEX",
    "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ROCE_VERSION_NUM"};

/// NCCL's variables that its routing depends on, with its defaults.
struct NcclSettings {
  bool subnet_aware = false;  // NCCL_IB_SUBNET_AWARE_ROUTING, connect.cc 61
  bool merge_nics = true;     // NCCL_IB_MERGE_NICS, init.cc 29
  int prefix_bits =
      24;              // NCCL_IB_SUBNET_PREFIX_LEN, connect.cc 62: for IPv4, independently of the interfaces' prefixes
  int gid_index = -1;  // NCCL_IB_GID_INDEX, connect.cc 12; below 0: chosen
  Family family = Family::kIpv4;        // NCCL_IB_ADDR_FAMILY, connect.cc 101
  GidType gid_type = GidType::kRoceV2;  // NCCL_IB_ROCE_VERSION_NUM, connect.cc 14
  bool operator==(const NcclSettings&) const = default;
};

/// The entry that a port uses (connect.cc 268-335): the pinned one, or from entry 0 on each that suits better than the
/// one before. nullopt: there is none at that index; ibv_query_gid returns zeros, and the queue pair refuses it.
std::optional<GidEntry> nccl_gid(const std::vector<GidEntry>& table, const NcclSettings& settings);

/// Neither empty nor link-local (connect.cc 213-232).
bool nccl_is_valid(const RawGid& gid);

/// connect.cc 492-508: IPv4 by `prefix_bits`, IPv6 by its first 64 bits.
bool nccl_same_subnet(const RawGid& one, const RawGid& other, int prefix_bits);

/// What net_ib opens on a node. A device's functions are positions in Node::nics.
struct NcclDevices {
  std::vector<std::vector<int>> devices;  // each NIC alone, then the fused ones (init.cc 503-510, 190-262)
  std::vector<int> channels;              // [channel] a device: the fused one instead of those that it is made of
};

/// Its ports are those with a link that NCCL_IB_HCA lets in (init.cc 355-372), with or without an address. Fused are
/// functions of one card, whose PCI addresses differ in the last digit alone: those are at most PORT apart (topo.cc
/// 1392-1410 places them, 1738-1744 defines PORT, 1118 on measures it), eight of them at most (plugin/net/net_v12.h
/// 11).
NcclDevices nccl_devices(const Cluster& cluster, int node, const NcclSettings& settings);

/// A device's GIDs, one a function; empty GIDs where a function lacks the pinned index.
using NcclGids = std::vector<RawGid>;

/// connect.cc 524-592: `wanted`, if each of its functions shares a subnet with one of `remote`; else the first device
/// of which that is true; else `wanted` all the same. `devices`: [device] its GIDs.
int nccl_find_device(const std::vector<NcclGids>& devices, const NcclGids& remote, int wanted, int prefix_bits);

/// The connector's half (connect.cc 802): by the GIDs of the listener's first two functions (connect.cc 57, 608-622).
int nccl_connector_device(const std::vector<NcclGids>& devices, const NcclGids& listener, int wanted,
                          const NcclSettings& settings);

/// The acceptor's half (connect.cc 1462-1476): by the GIDs of the sender's functions, those that it has taken by then.
int nccl_acceptor_device(const std::vector<NcclGids>& devices, const NcclGids& sender, int wanted,
                         const NcclSettings& settings);

/// Stock NCCL on one cluster.
class NcclRouting {
 public:
  /// A node's own environment comes first for what it sets of kRoutingVariables. A node on which NCCL_SOCKET_IFNAME
  /// leaves no interface opens no device: NCCL ends with an error at init (bootstrap.cc 124-128).
  NcclRouting(const Cluster& cluster, const NcclSettings& settings);

  /// Queue pair i joins function i of both devices, modulo their numbers, as many as the larger one has (connect.cc
  /// 653-658 and 885, 1171): reached where all of them are.
  /// `peer_channel`: whose device the listener has, where ranks of one node have devices of their own; -1: `channel`.
  Aimed aim(int from, int to, int channel, int peer_channel = -1) const;
  /// NICs that NCCL opens on the node: those with a link that NCCL_IB_HCA lets in.
  const std::vector<int>& nics(int node) const { return nodes_[static_cast<std::size_t>(node)].nics; }

 private:
  struct Port {
    int medium = -1;                  // cable, or cables + switch; -1: no link
    std::optional<GidEntry> gid;      // nullopt: the port lacks the pinned index
    std::vector<IpPrefix> addresses;  // of its netdev
    std::vector<int> beyond = {};     // the media that its router joins
    std::vector<GatewayRoute> routes = {};
  };
  struct Node {
    NcclSettings settings;
    std::vector<int> nics;
    std::vector<Port> ports;  // as Node::nics
    NcclDevices devices;
    std::vector<NcclGids> gids;  // [device]
  };
  static Aim queue_pair(const Port& from, const Port& to);

  std::vector<Node> nodes_;
};

enum class RoutingRule { kAncestor, kNccl, kNcclSubnetAware, kNcclSubnetAwareFused };
inline constexpr std::array kRoutingRules{RoutingRule::kAncestor, RoutingRule::kNccl, RoutingRule::kNcclSubnetAware,
                                          RoutingRule::kNcclSubnetAwareFused};
const char* describe(RoutingRule rule);
/// "ancestor", "nccl", "nccl-subnet-aware", "nccl-subnet-aware-fused": as JSON names them.
const char* name_of(RoutingRule rule);
/// Of the three that are NCCL's.
NcclSettings settings_of(RoutingRule rule);

/// One rule on one cluster, which must outlive it, as its topology must.
class RuleAims {
 public:
  RuleAims(RoutingRule rule, const Cluster& cluster, const Topology& topology);
  /// What node `from` does for a channel on device `device` to node `to`. The ancestor's devices are NICs with a live
  /// link and an address, NCCL's are nccl_devices(). Nodes without any refuse.
  /// `peer_device`: the listener's; -1: `device`.
  Aimed aim(int from, int to, int device, int peer_device = -1) const;

 private:
  RoutingRule rule_;
  const Cluster& cluster_;
  const Topology& topology_;
  std::optional<NcclRouting> nccl_;
  std::vector<std::vector<int>> live_;  // [node], of the ancestor; empty for the others
};

/// The node's NICs with a live link and an address that others on it share: positions in Node::nics.
std::vector<int> live_nics(const Cluster& cluster, const Topology& topology, int node);

/// Settings under which stock NCCL reaches every node that a cable, switch or router joins to a node, on every channel;
/// as little beyond its defaults as does it, and beside what the environment sets. Only where nothing works beside
/// that: without one of kRoutingVariables that it sets, or without all of them. nullopt: none of those that were tried
/// do.
struct WorkingSettings {
  NcclSettings settings;
  /// "NCCL_IB_SUBNET_AWARE_ROUTING=1 NCCL_IB_MERGE_NICS=0": beyond what every node sets; empty: nothing.
  std::string text;
  std::vector<std::string> without = {};  // names of variables that the environment sets and that have to go
};
/// `nodes`: those of the job, the first ones. `crosses_rails`: ranks of one node have devices of their own, so that
/// each device of a node is paired with each of the other.
std::optional<WorkingSettings> settings_that_work(const Cluster& cluster, const Topology& topology, int nodes,
                                                  bool crosses_rails = false);

}  // namespace meshbed::models

#pragma once
// Topology generators: from "a ring of four" to a Cluster, pure functions of values.
//
// Conventions (a scenario's readers and tests rely on them):
// - Nodes are node0, node1, ...; NICs are named as on a host with cards of two ports: rocep1s0f0, rocep1s0f1,
//   rocep2s0f0, ...; of a Spark by its functions (spark.h).
// - A node's NICs stand in rails: first every neighbour of rail 0, then of rail 1. Within a rail the previous neighbour
//   comes before the next one: in a ring node i's second NIC is cabled to node i+1's first. A ring of two is one cable.
// - Every cable is its own subnet: first_subnet, then the next one of the same length; the end named first is .1.
// - A switch is one subnet for all, widened until it holds them; one switch a rail. The two functions of a Spark's port
//   are two rails and two subnets on one switch.

#include <cstdint>
#include <string>
#include <vector>

#include "models/cluster.h"
#include "models/spark.h"

namespace meshbed::models {

enum class TopologyKind { kRing, kLine, kFullMesh, kStar, kSwitch, kTorus };

struct TopologyOptions {
  TopologyKind kind = TopologyKind::kRing;
  int nodes = 2;             // of a torus: the product of `shape`
  std::vector<int> shape{};  // torus only: the length of each dimension
  int nics = 0;              // a node; 0: as many as are cabled. Those left over have neither cable nor address
  int rails = 0;             // parallel cables per neighbour; 0: as many as `nics` allows, or 1
  std::uint64_t rate_bps = 0;
  Picoseconds latency_ps = 0;  // one way over one cable
  Picoseconds switch_latency_ps = 0;
  std::uint32_t mtu_bytes = 9000;
  IpPrefix first_subnet{};
  NicLayout functions = NicLayout::kSeparate;
};

/// More than these are a mistake in the file, not a cluster: a run would need more memory than a machine has.
inline constexpr std::int64_t kNodesMax = 65536;
inline constexpr std::int64_t kNicsMax = 262144;
inline constexpr std::int64_t kNicsPerNodeMax = 1024;

/// Nodes, NICs with addresses, cables and switches. GID tables, GPUs and management ports are left to the caller.
/// The error names the options that contradict each other.
Result<Cluster> generate_topology(const TopologyOptions& options);

/// The names of a node's NIC number `index` (0-based), where it is no Spark's: RDMA device, netdev, PCI function.
void name_nic(Nic& nic, int index);

/// The address `host` places after the network address of `subnet` moved on by `subnets` whole subnets; an error where
/// that leaves the address space.
Result<IpPrefix> host_in_subnet(const IpPrefix& subnet, std::uint64_t subnets, std::uint64_t host);

/// Host addresses that a prefix of this length can hold (without network and broadcast for IPv4), at most 2^32.
std::uint64_t host_capacity(const IpPrefix& subnet);

/// The first and last addresses of an IPv4 subnet shorter than /31 belong to no host.
bool is_network_or_broadcast(const IpPrefix& prefix);

}  // namespace meshbed::models

#pragma once
// Algorithm: what a collective must cost on given links, as closed forms. A run that is faster than one of these is
// wrong, whatever it says.
//
// Nomenclature: n - ranks; N - nodes that hold them; S - bytes as nccl-tests counts them: all_reduce, broadcast and
// sendrecv the buffer of one rank, all_gather the whole output, reduce_scatter the whole input; hop - one step around
// the ring, over all cables that join the two nodes; wire bytes - payload with headers (models/link.h).
// Cost of every function: O(hops) or O(nodes).

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "plugin/base/units.h"

namespace meshbed::models {

enum class Collective : std::uint8_t { kAllReduce, kAllGather, kReduceScatter, kBroadcast, kSendRecv };

/// all_reduce all_gather reduce_scatter broadcast sendrecv; nothing for any other word.
std::optional<Collective> parse_collective(std::string_view name);
const char* name_of(Collective op);

/// nccl-tests' factor from algorithm bandwidth S/t to bus bandwidth (doc/PERFORMANCE.md of nccl-tests).
double bus_factor(Collective op, int ranks);

/// From one rank to the next: all parallel links together.
struct RingHop {
  std::uint64_t rate_bps = 0;  // 0: within a node, which is taken to cost nothing
  Picoseconds latency_ps = 0;  // one way: propagation and switch
  std::uint32_t pmtu_bytes = 4096;
};

/// What no ring algorithm can beat: the hops together carry the op's traffic however it is cut into chunks, and the
/// longest chain of dependent messages crosses that many hops. `hops`: one for each rank, in ring order; for a ring of
/// one rank the bound is 0.
///   all_reduce 2(n-1)S over n hops, chain 2(n-1); all_gather and reduce_scatter (n-1)S, chain n-1;
///   broadcast (n-1)S over the n-1 hops that do not lead into the root, chain n-1; sendrecv nS, chain 1.
/// Where k < n hops leave a node, only these count: all_gather and reduce_scatter k(n-1)S/n, chain k-1; broadcast its
/// share of (n-1)S; sendrecv kS. all_reduce is then the ring whose n shares are equal to within 64 elements, as those
/// of the engine are: 2k(n-1)S/n less that rounding, chain 2(k-1). (Of uneven shares a few could spare the k hops.)
Picoseconds ring_bound_ps(Collective op, std::uint64_t bytes, const std::vector<RingHop>& hops, int root = 0);

/// A node's NICs together, one direction.
struct NodePort {
  std::uint64_t rate_bps = 0;
  int ranks = 1;
};

/// What no algorithm at all can beat: bytes that must cross the NICs (without headers) over their rates.
///   all_reduce: each element crosses at least 2(N-1) times, over all nodes' rates; all_gather and reduce_scatter:
///   S less the node's own share into or out of each node; broadcast: S into each node; sendrecv: nothing is said
///   where a node holds several ranks, else S out of each node.
Picoseconds any_algorithm_bound_ps(Collective op, std::uint64_t bytes, const std::vector<NodePort>& nodes);

}  // namespace meshbed::models

#pragma once
// Algorithm: the least cost of a collective on given links, as closed forms. A run that is faster than one of these is
// wrong.
//
// Nomenclature: n - ranks; N - nodes that hold them; S - bytes as nccl-tests counts them: all_reduce, broadcast,
// reduce, alltoall and sendrecv the buffer of one rank, all_gather and gather the whole output, reduce_scatter and
// scatter the whole input; hop - one step around the ring, over all cables that join the two nodes; wire bytes -
// payload with headers (models/link.h). Cost of every function: O(hops) or O(nodes).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/base/collective.h"
#include "plugin/base/units.h"

namespace meshbed::models {

using meshbed::Collective;
using meshbed::has_root;
using meshbed::name_of;
using meshbed::reduces;

/// all_reduce all_gather reduce_scatter broadcast alltoall sendrecv reduce gather scatter: what parse_collective()
/// takes.
std::vector<std::string> collective_names();
std::optional<Collective> parse_collective(std::string_view name);

/// nccl-tests' factor from algorithm bandwidth S/t to bus bandwidth (doc/PERFORMANCE.md of nccl-tests).
double bus_factor(Collective op, int ranks);

/// From one rank to the next: all parallel links together.
struct RingHop {
  std::uint64_t rate_bps = 0;  // 0: within a node, which is taken to cost nothing
  Picoseconds latency_ps = 0;  // one way: propagation and switch
  std::uint32_t pmtu_bytes = 4096;
};

/// A lower bound for ring algorithms whose data go one way round, from rank to rank + 1 (plugin/coll: on every
/// channel).
struct RingBound {
  Picoseconds time_ps = 0;    // 0: no bound
  bool equal_shares = false;  // holds only for rings whose n shares of an all_reduce are equal to within 64 elements
};

/// The rank that sends nothing on round the ring: the one before a broadcast's root, a reduce's root; -1: none.
int idle_rank_of(Collective op, int root, int ranks);

/// `hops`: one for each rank, in ring order; k of them (those with a rate) leave a node. The largest of three:
///   slowest hop: each hop for itself, B_hop with headers over its rate, plus its latency. What crosses every hop:
///     all_gather      (n-1)S/n: every block but the one that the hop's end starts with
///     reduce_scatter  (n-1)S/n: sums of every block but the one that ends at the hop's start
///     broadcast       S, but nothing into the root
///     reduce          S, but nothing out of the root
///     sendrecv        S
///     all_reduce      share c starts as a sum at rank c+1, is whole at rank c and goes round from there: it crosses
///                     hop c (c to c+1) only whole, hop c-1 only as a sum, and all others twice. Hop r therefore
///                     carries 2S less shares r and r+1. Equal shares: 2(S - s) at least, s = S/n + 64 elements (an
///                     element a channel is rounding). Uneven shares could relieve a slow hop, so this bound
///                     holds for equal shares only.
///   all hops together: an all_reduce of any shares, if k = n: 2(n-1)S with headers over the sum of the rates, plus the
///     least latency. (For all other collectives the slowest hop gives at least as high a bound.)
///   chain of dependent messages, times the least latency: all_reduce 2(n-1) where k = n, else 2(k-1);
///     all_gather and reduce_scatter k-1; broadcast and reduce as many hops as they use; sendrecv 1.
/// alltoall, gather and scatter have no bound, as they do not go round a ring.
RingBound ring_bound(Collective op, std::uint64_t bytes, const std::vector<RingHop>& hops, int root = 0,
                     std::uint64_t element_bytes = 4);

/// A node's NICs together, one direction.
struct NodePort {
  std::uint64_t rate_bps = 0;
  int ranks = 1;
};

/// A lower bound for every algorithm: bytes that must cross the NICs (without headers) over their rates.
///   all_reduce: each element crosses at least 2(N-1) times, over all nodes' rates, and each node sends and receives at
///   least S on any node that adds (its own part must leave it or meet the others' in it), over the narrowest's;
///   all_gather and reduce_scatter: S less the node's own share into or out of each node; alltoall: that of each of its
///   ranks; broadcast: S into each node; reduce: S out of each node; gather and scatter: all shares except those of its
///   own node into or out of the root's node; sendrecv: no bound if a node holds several ranks, else S out of each
///   node.
Picoseconds any_algorithm_bound_ps(Collective op, std::uint64_t bytes, const std::vector<NodePort>& nodes);

}  // namespace meshbed::models

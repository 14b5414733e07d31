#pragma once
// Replay: how long a collective takes on a cluster's links, from its schedule alone: no plugin code, no simulated
// thread and no process a rank.
//
// Nomenclature. Stream: what one rank sends on one channel, message after message; a stream sends one message at a
// time. Hop: the links from one rank to another. A schedule says, for each message of a stream, where it goes, how many
// bytes it has and how many messages its rank must have received before; it is a function of numbers, never stored.
//
// A message occupies its links from its start until its last bit has left, bytes / (rate of the slowest link), and
// arrives a hop's latency later. Payload alone is counted: no headers, acknowledgements or credits. Where a message
// would wait for a link that another stream occupies, the whole replay is repeated on the chunk fabric
// (sim/engine/chunk_fabric.cpp), which shares links as runs of the real plugin do.
//
// Ring of n ranks, S bytes, rate B, latency L, equal links and shares (Thakur, Rabenseifner, Gropp, "Optimization of
// collective communication operations in MPICH", 2005):
//   all_reduce      2(n-1) (S/(nB) + L)      chunk c starts at rank c + 1, is whole at rank c
//   all_gather      (n-1) (S/(nB) + L)
//   reduce_scatter  (n-1) (S/(nB) + L)
//   broadcast       (n-1) (s/B + L) + (S-s)/B      a chain from the root, in slices of s bytes
//   reduce          the same                       a chain that ends at the root
// Binomial tree, n a power of two:
//   all_reduce      2 log2(n) (S/B + L);  broadcast, reduce  log2(n) (S/B + L)
// Halving and doubling, n a power of two that divides the elements (sim/replay/halving_schedule.h):
//   all_reduce      2 log2(n) L + 2(n-1) S/(nB)
// Torus of k^d ranks, elements that 2d n divides (sim/replay/torus_schedule.h):
//   all_reduce      2d(k-1) L + (n-1)/n S/(d B)
// Pairs, rank r to r + 1, r + 2, ... in turn, all ranks on one switch:
//   alltoall        (n-1) S/(nB) + L
//
// Cost: one event a message, O(1) each; memory O(ranks).

#include <cstdint>
#include <string>
#include <vector>

#include "models/cluster.h"
#include "plugin/base/collective.h"
#include "plugin/base/result.h"
#include "plugin/base/units.h"
#include "sim/trace/proof.h"

namespace meshbed::sim {

enum class ReplayAlgorithm : std::uint8_t { kRing, kTree, kHalvingDoubling, kTorus, kPairs };

/// What is simulated: data messages alone, or also what the net plugin adds (sim/replay/plugin_ring.h).
enum class ReplayDetail : std::uint8_t { kData, kPlugin };

/// A message of a replay, as sim/verbs/verbs_host.h's MessageRecord has it.
struct ReplayRecord {
  Picoseconds posted_ps = 0, started_ps = 0, delivered_ps = 0, completed_ps = 0;
  int source = 0, destination = 0;  // ranks
  std::uint64_t payload_bytes = 0;
  bool is_data = true;  // false: a clear-to-send write
};

/// Called about every 2^18 messages: how many there were, and the time of the last one. Must not throw.
using ReplayProgress = void (*)(std::uint64_t messages, Picoseconds at_ps);

struct ReplayRequest {
  const models::Cluster* cluster = nullptr;  // rank r is alone on node r
  Collective collective = Collective::kAllReduce;
  ReplayAlgorithm algorithm = ReplayAlgorithm::kRing;
  int ranks = 2;
  int root = 0;
  std::vector<int> shape{};  // of a torus: the length of each dimension, the first one fastest; kTorus
  /// Of the buffer (all_reduce, broadcast, reduce), or of one rank's block.
  std::uint64_t elements = 0;
  std::uint64_t element_bytes = 4;
  int channels = 1;
  std::uint64_t slice_bytes = 1U << 20U;  // of a chain; detail kData
  ReplayDetail detail = ReplayDetail::kData;
  std::uint64_t slice_elements = 1;            // of the engine's plan; detail kPlugin
  int warmup = 1;                              // iterations before the one that is simulated; detail kPlugin
  std::vector<ReplayRecord>* trace = nullptr;  // gets each simulated message; detail kPlugin
  /// One rank stands for all where they are provably alike, and periods that repeat exactly are not simulated
  /// (sim/replay/steady_state.h; detail kData).
  bool fold = true;
  ReplayProgress on_progress = nullptr;
  Picoseconds give_up_ps = 0;  // not to be simulated beyond this time; 0: to the end. On the chunk fabric always that
};

struct ReplayOutcome {
  Picoseconds time_ps = 0;          // until the last message has arrived
  Picoseconds closed_form_ps = 0;   // 0: there is none for these links and shares
  std::uint64_t messages = 0;       // of all ranks, those that were folded included
  std::uint64_t payload_bytes = 0;  // likewise
  std::uint64_t events = 0;         // messages that were simulated one by one
  std::uint64_t skipped = 0;        // messages in periods that repeated exactly
  bool folded = false;
  bool contended = false;     // links were shared; times are the chunk fabric's
  bool gave_up = false;       // it takes longer than give_up_ps; nothing else is known
  std::uint64_t digest = 0;   // over each simulated message's stream, content and time of arrival, in any order
  std::vector<Proof> proofs;  // messages, bytes, contributions, closed form
};

/// An error names what cannot be replayed: no link between two ranks that exchange messages, a collective that the
/// algorithm does not do, less than an element a rank.
Result<ReplayOutcome> replay(const ReplayRequest& request);

}  // namespace meshbed::sim

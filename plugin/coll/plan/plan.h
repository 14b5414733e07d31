#pragma once
// Plan: what one rank does on one channel of one operation, as a pure function of numbers. No buffers, no network.
//
// Nomenclature. Part: the channel's share of every rank's block (or of the whole buffer, for operations without
// blocks). Chunk: what travels in one step. Slice: one message; a chunk is cut into slices of Plan::slice_bytes, the
// last one shorter, and an empty chunk has none. Round: a pass over the ring with at most `round_bytes` of each chunk,
// which bounds the memory for partial sums. Forwarded: a send whose data an earlier receive brought; the i-th forwarded
// slice carries what the i-th forwarding receive brought, so that two counters say what may be sent.
//
// Ring of n ranks, block b of S bytes in all; data go from rank r to r + 1:
//   all_reduce      2(n-1) steps, 2 S (n-1)/n bytes per rank     reduce-scatter, then all-gather
//   all_gather      n-1 steps,    (n-1) b bytes per rank
//   reduce_scatter  n-1 steps,    (n-1) b bytes per rank
//   broadcast       1 step,       S bytes per rank               a chain from the root; the last rank only receives
//   reduce          1 step,       S bytes per rank               a chain that ends at the root; root + 1 only sends
// Pairs, each over a connection of its own (legs_of), all at once:
//   send_recv       1 step,       as asked
//   all_to_all      n-1 legs,     (n-1) b bytes per rank
//   gather          n-1 legs,     b bytes per rank, all into the root
//   scatter         n-1 legs,     b bytes to each rank, all out of the root
//
// Reductions are formed in ring order, fixed by rank: chunk c of an all_reduce starts at rank c + 1 and ends at rank c,
// block c of a reduce_scatter likewise, and a reduce starts at root + 1; each rank combines (what arrived) with (its
// own). The result is therefore the same bits on every rank, in every world. Where a partial result is wider than an
// element (float32 for the half types), its bytes travel wider too: n-2 of an all_reduce's and a reduce_scatter's first
// n-1 steps, and a reduce's but for the first rank's, move partial_bytes instead of element_bytes for each element.
//
// Both ends of a connection must derive the same slices: everything here depends only on what all ranks of the
// operation share (counts, sizes, channel, ring order), never on local state.

#include <cstdint>
#include <vector>

#include "plugin/base/collective.h"

namespace meshbed::coll {

using meshbed::Collective;

enum class Source : std::uint8_t {
  kInput,    // the caller's send buffer
  kOutput,   // the caller's receive buffer
  kPartial,  // the staging slot that the matching receive filled
};

enum class Arrival : std::uint8_t {
  kStore,            // lands in output; nothing else to do
  kReduceToOutput,   // lands in a staging slot; output = slot + input
  kReduceInSlot,     // lands in a staging slot; slot = slot + input, forwarded from there
  kStoreBehindSend,  // lands in a staging slot; stored in output once our own send of those bytes has completed
};

/// Which of reduce.h's kernels reduces, by how many ranks have contributed already.
enum class Form : std::uint8_t { kFirst, kBetween, kLast, kOnly };

// Offsets and counts are elements.
struct SendStep {
  Source source = Source::kInput;
  bool forwarded = false;
  std::uint64_t offset = 0;  // in input or output; unused for kPartial
  std::uint64_t count = 0;
};

struct RecvStep {
  Arrival arrival = Arrival::kStore;
  bool forward = false;             // a later send carries it on
  Form form = Form::kOnly;          // kReduce*
  std::uint64_t output_offset = 0;  // kStore*, kReduceToOutput
  std::uint64_t input_offset = 0;   // kReduce*: our own contribution
  std::uint64_t count = 0;
};

/// Input to output on this rank, unless the two are the same memory.
struct LocalCopy {
  std::uint64_t input_offset = 0;
  std::uint64_t output_offset = 0;
  std::uint64_t count = 0;
};

struct Mesh;
struct RootTrees;
struct TorusShape;

/// The values that all ranks share, and our rank.
struct PlanRequest {
  Collective collective = Collective::kAllReduce;
  int rank = 0, ranks = 1;
  int root = 0;            // broadcast, reduce, gather, scatter
  int to = -1, from = -1;  // send_recv; -1: neither
  // Elements: all_reduce, broadcast, reduce and send_recv of the buffer, the others of one rank's block.
  std::uint64_t count = 0;
  std::uint64_t receive_count = 0;  // send_recv: elements received
  bool in_place = false;            // send_recv: input is output; local, changes nothing on the wire
  std::uint64_t element_bytes = 4;
  std::uint64_t partial_bytes = 4;  // of an element that some ranks have contributed to, and others not yet
  int channel = 0, channels = 1;
  std::uint64_t slice_bytes_max = 1 << 20;
  int slots = 8;                          // messages in flight per direction
  const Mesh* mesh = nullptr;             // the cables between the ranks; nullptr: nothing is known
  const RootTrees* root_trees = nullptr;  // broadcast and reduce, where there is a mesh: its trees from their root
  const TorusShape* torus = nullptr;      // of the ranks; nullptr: there is none
};

struct Plan {
  PlanRequest request;
  int send_peer = -1, recv_peer = -1;  // -1: no peer, and no steps in that direction
  std::uint64_t send_steps = 0, recv_steps = 0;
  std::uint64_t slice_count = 1;       // elements of the largest slice sent
  std::uint64_t recv_slice_count = 1;  // of the largest slice received; differs from slice_count for send_recv only
  std::uint64_t slot_bytes = 0;        // of one staging slot; 0: nothing is staged
  /// Where in its slot a slice lands that is widened there; elsewhere slices land at the slot's begin.
  std::uint64_t widened_from_bytes = 0;
  LocalCopy copy;

  // Derived by make_plan, read by the step functions.
  std::uint64_t part_begin = 0, part_count = 0;  // elements
  std::uint64_t round_count = 0;                 // elements of a chunk in one round
  bool keeps_partials = false;                   // partial results wait in slots, not in the output
};

Plan make_plan(const PlanRequest& request);
/// Step `index` of 0 .. send_steps-1; O(1).
SendStep send_step(const Plan& plan, std::uint64_t index);
RecvStep recv_step(const Plan& plan, std::uint64_t index);

/// Bytes of an element on the wire, where it is widest.
inline std::uint64_t widest_bytes(const PlanRequest& request) {
  return request.element_bytes > request.partial_bytes ? request.element_bytes : request.partial_bytes;
}
/// Bytes of an element on the wire.
inline std::uint64_t wire_bytes_of(const PlanRequest& request, const SendStep& step) {
  return step.source == Source::kPartial ? request.partial_bytes : request.element_bytes;
}
inline std::uint64_t wire_bytes_of(const PlanRequest& request, const RecvStep& step) {
  const bool reduces = step.arrival == Arrival::kReduceToOutput || step.arrival == Arrival::kReduceInSlot;
  const bool partial = reduces && (step.form == Form::kBetween || step.form == Form::kLast);
  return partial ? request.partial_bytes : request.element_bytes;
}

/// Elements of a slice where that many travel in one step. `wire_bytes`: of an element, where it is widest.
std::uint64_t slice_count_of(std::uint64_t chunk_count, std::uint64_t wire_bytes, const PlanRequest& request);

/// The caller's buffers as a whole.
std::uint64_t input_bytes_of(const PlanRequest& request);
std::uint64_t output_bytes_of(const PlanRequest& request);

/// One of the plans that an operation is made of, and where in the caller's buffers its own begin.
struct SubPlan {
  PlanRequest request;
  std::uint64_t input_offset = 0, output_offset = 0;  // elements
};
/// all_to_all, gather and scatter: this rank's pairs, and its own block; every other collective is one leg, itself.
std::vector<SubPlan> sub_plans_of(const PlanRequest& request);

/// What this rank copies from its input to its output, on all channels together; offsets in the caller's buffers.
std::vector<LocalCopy> local_copies_of(PlanRequest request);

/// The peers of a leg. The first collective makes all edges of the ring, also those that it does not need: so both ends
/// of an edge always agree that it is to be made.
struct Peers {
  int send = -1, recv = -1;
};
Peers peers_of(const PlanRequest& request);

/// Element range `index` of `parts` nearly equal ones; the first count % parts are one longer.
struct Range {
  std::uint64_t begin = 0, count = 0;
};
constexpr std::uint64_t end_of(const Range& range) { return range.begin + range.count; }
constexpr Range part_of(std::uint64_t count, std::uint64_t parts, std::uint64_t index) {
  const std::uint64_t base = count / parts, rest = count % parts;
  return {index * base + (index < rest ? index : rest), base + (index < rest ? 1U : 0U)};
}

}  // namespace meshbed::coll

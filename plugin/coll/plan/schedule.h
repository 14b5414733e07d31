#pragma once
// Schedule: what one rank does on one channel of one operation where it has several neighbours. Pure, as plan.h is.
//
// Nomenclature as in plan.h; in addition: transfer - a range of elements that goes to or comes from one peer, cut into
// slices; way - which of the connections with that peer it uses; work - memory for this rank's partial results, which
// is the output where that has room for them; finished - an element that all ranks have contributed to.
//
// The order of the list is all that a rank must keep: a slice is sent, or an arrived one reduced, once every earlier
// receive of the list has digested the elements that it shares with the slice. Transfers over one connection run in the
// order of the list, which is the same at both ends; so the earliest transfer that is open anywhere can always move.
//
// All-reduce of S bytes over n ranks, per channel; every edge of a tree carries its share up and down:
//   tree              two binary trees, each for half of the elements; a rank with children in one has none in the
//   other
//                     (Sanders, Speck, Traeff 2009; built as NCCL builds them). 2(n-1) S bytes in all, at most 2 S sent
//                     by a rank, 2(ceil(log2 n)) slices from end to end.
//   halving-doubling  n = p + r, p a power of two: rank 2i hands its data to rank 2i + 1 for i < r; among the p left,
//                     log2 p exchanges of halves, the first with the nearest rank, then the same backwards
//                     (Thakur, Rabenseifner, Gropp 2005). 2(p-1) S + 2 r S bytes in all.
//   direct            a chunk for each rank, S/n: all ranks send it their share of that chunk, and it sends them the
//                     result. 2(n-1) S bytes in all, as round a ring, but two steps.
// Direct all-gather and reduce-scatter of blocks of b bytes are its second and its first half: n(n-1) b bytes in all.
// Broadcast and reduce of S bytes by tree: one binary tree, rank root + i below root + (i-1)/2; (n-1) S bytes in all.
//
//   mesh              mesh.h's t trees, each for 1/t of the elements: up to its top and down again, or root_trees.h's
//                     to or from the root; what each rank of a tree has for its neighbours there goes over a cable,
//                     never through a relay. 2(n-1) S bytes in all; a cable that c trees cross carries S c/t each way.
// Mesh all-gather of blocks of b bytes: over each tree 1/t of every block, away from its rank; n(n-1) b bytes in all.
// Mesh reduce-scatter is its mirror: over each tree 1/t of every block, towards its rank; n(n-1) b bytes in all. A rank
// between others keeps partial results of all their blocks, a round's share of each.
//
//   torus             torus_shape.h's rings, a dimension after the other: the ranks of a ring reduce and scatter what
//                     is left of a part among them, and gather it in the opposite order of dimensions. 2(n-1) S bytes
//                     in all, sum of 2(k-1) steps. Its all-gather is the second half and its reduce-scatter the first
//                     one: the blocks of all ranks at a place of the ring travel to it one by one. n(n-1) b bytes.
//
// Reductions are formed in an order fixed by rank: in a tree each rank combines (first child's) with (its own), then
// (second child's) with that, and on a mesh the others', by rank; in an exchange and round a ring of a torus (what
// arrived) with (what it has);
// directly, (rank r + 1's) with (rank r's own), then (rank r + 2's) with that, and so on round to r - 1. Each element
// is finished by one rank, which hands it on: the same bits everywhere. Where partial results are wider than elements,
// they travel wider: up from ranks with children, and between ranks of which the sender has combined already.

#include <cstdint>
#include <vector>

#include "plugin/coll/plan/algorithm.h"
#include "plugin/coll/plan/plan.h"

namespace meshbed::coll {

enum class BufferRole : std::uint8_t { kInput, kWork, kOutput };

struct Transfer {
  int peer = -1;
  int way = 0;
  bool receives = false;
  Range range{};                           // in elements of the larger of the caller's buffers
  BufferRole place = BufferRole::kOutput;  // a send: where from. A receive: where the data are when digested
  bool partial = false;                    // partial results travel, not elements
  bool reduces = false;                    // a receive: combined with our own contribution, ...
  BufferRole own = BufferRole::kInput;     // ... which lies there
};

struct Schedule {
  Algorithm algorithm = Algorithm::kTree;
  PlanRequest request;
  std::vector<Transfer> transfers;  // of one round; peers, ways, directions and places are every round's
  std::uint64_t slice_count = 1;    // elements of the largest slice
  bool works_in_output = false;     // else kWork is memory of its own, for one round's partial results
  bool works_in_blocks = false;     // that memory is for a round's share of every rank's block, one behind another
  bool has_work = false;            // something lies there
  LocalCopy copy;
  Range part,
      round;  // the channel's share (of a block, where there are blocks), and what of it the transfers are about
  // Ranges count from the beginning of the larger buffer: these are the positions at which smaller buffers begin. If
  // work is of blocks, work_index() gives the position instead of work_begin.
  std::uint64_t input_begin = 0, output_begin = 0, work_begin = 0;
};

/// A rank's place in a tree; -1: none.
struct TreeNode {
  int parent = -1;
  int first = -1, second = -1;  // children
};
/// Tree 0 or 1 of the pair; rank 0 or n-1 (n even) or 1 (n odd) is on top and has one child.
TreeNode paired_tree(int tree, int rank, int ranks);
/// The tree of a broadcast or reduce.
TreeNode rooted_tree(int root, int rank, int ranks);

/// Of halving and doubling: the rank at a position of the power of two that go on, `folded` pairs having one rank act
/// for both.
inline int halving_rank(int position, int folded) { return position < folded ? 2 * position + 1 : position + folded; }

/// Whether there is one. Every other collective goes round the ring or in pairs.
bool has_schedule(Algorithm algorithm, Collective collective);
/// Elements of a round, of a block where there are blocks; all there are, where they need no memory of their own.
std::uint64_t round_count_most(Algorithm algorithm, const PlanRequest& request);
/// Elements of the largest slice.
std::uint64_t scheduled_slice_count(Algorithm algorithm, const PlanRequest& request);
/// The first round. A round is as much as fits into the memory for partial results, or everything.
Schedule make_schedule(Algorithm algorithm, const PlanRequest& request);
/// Elements of the work memory, where it is its own; no round has more than the first.
std::uint64_t work_count(const Schedule& schedule);
/// Where in it element `index` of the larger buffer lies in this round.
std::uint64_t work_index(const Schedule& schedule, std::uint64_t index);
/// Goes on to the next round; false where there is none. Allocates nothing.
bool next_round(Schedule& schedule);

inline std::uint64_t wire_bytes_of(const PlanRequest& request, const Transfer& transfer) {
  return transfer.partial ? request.partial_bytes : request.element_bytes;
}

}  // namespace meshbed::coll

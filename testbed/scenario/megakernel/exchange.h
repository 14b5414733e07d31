#pragma once
// Exchanges: all of a rank's bytes to every other rank at once, as slots, for programs that have one layer after the
// other.
//
// One-shot (device rings, section 4), n ranks, b bytes: each rank copies its input to where it is sent from, puts all
// of it to each other rank with a flag behind it, and waits for theirs. An all-reduce adds up in rank order, which is
// the same on every rank: the same bits. It does so in one pass: inputs are read once, the end is written once. An
// all-gather copies each to its place in the output.
// Each layer has its own place for what arrives, so that no slot waits for room; across epochs the batch fence keeps
// them apart.
//
// On ranks that are cabled as a ring a rank puts to its two neighbours alone, and they pass on what they got, hop by
// hop, to the farthest rank half from each side (the published kernels of DGX Sparks do so:
// models/data/cal_spark4ring_oneshot_allreduce.csv, setup). Messages are halves of b, as these have two lanes a
// neighbour. On four ranks 1.5 b go over each cable in each direction, where messages of their own over relays take 2
// b. n-1 messages of b bytes without cabling; 2 messages a neighbour and source with it.

#include <cstdint>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/coll/plan/datatype.h"
#include "plugin/coll/plan/slots.h"

namespace meshbed::testbed {

struct ExchangeShape {
  int rank = 0, ranks = 2;
  std::uint64_t count = 0;  // elements
  coll::DataType type{};
  bool forwards = false;  // from neighbour to neighbour, round a ring
};

/// The id after which the sum is in `output`. `after`: what makes the input.
ring::Word add_one_shot(coll::SlotBuilder& builder, const ExchangeShape& shape, coll::Area input, coll::Area output,
                        ring::Word after);
/// `output` has room for the inputs of all ranks, in their order.
void add_one_shot_gather(coll::SlotBuilder& builder, const ExchangeShape& shape, coll::Area input, coll::Area output);

/// One end of many: done when all are. kNobody where there are none.
ring::Word joined(coll::SlotBuilder& builder, const std::vector<ring::Word>& ends);

/// What one-shot slots must come to, element by element: inputs[0] combined with inputs[1], and so on, by the engine's
/// kernels. Serial, without slots.
std::vector<std::byte> sum_in_rank_order(const std::vector<std::vector<std::byte>>& inputs, coll::DataType type,
                                         coll::ReduceOp op);

}  // namespace meshbed::testbed

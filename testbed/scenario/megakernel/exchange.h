#pragma once
// Exchanges: every rank sends all of its bytes to every other rank at once, as slots, for programs with consecutive
// layers.
//
// One-shot (device rings, section 4), n ranks, b bytes: each rank copies its input to its send buffer, puts
// all of it to each other rank with a flag behind it, and waits for theirs. An all-reduce adds in rank order on every
// rank, so that the bits are equal. It takes one pass: inputs are read once, the result is written once. An all-gather
// copies each input to its place in the output.
// Each layer has its own receive buffer, so that no slot waits for room; the batch fence separates epochs.
//
// On ranks that are cabled as a ring, a rank puts to its two neighbours only, which forward the data hop by hop; the
// farthest rank gets half from each side (as the published kernels of DGX Sparks do:
// models/data/cal_spark4ring_oneshot_allreduce.csv, setup). Messages are halves of b, because there are two lanes for
// each neighbour. On four ranks each cable carries 1.5 b in each direction, where separate messages over relays take
// 2 b. Without cabling, a rank sends n-1 messages of b bytes; with it, 2 messages for each neighbour and source.

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

/// The id after which the sum is in `output`. `after`: the id that produces the input.
ring::Word add_one_shot(coll::SlotBuilder& builder, const ExchangeShape& shape, coll::Area input, coll::Area output,
                        ring::Word after);
/// `output` has room for the inputs of all ranks, in their order.
void add_one_shot_gather(coll::SlotBuilder& builder, const ExchangeShape& shape, coll::Area input, coll::Area output);

/// Joins several ids into one that is done when all are done. kNoId if there are none.
ring::Word joined(coll::SlotBuilder& builder, const std::vector<ring::Word>& ends);

/// The expected result of one-shot slots, element by element: inputs[0] combined with inputs[1], and so on, by the
/// engine's kernels. Serial, without slots.
std::vector<std::byte> sum_in_rank_order(const std::vector<std::vector<std::byte>>& inputs, coll::DataType type,
                                         coll::ReduceOp op);

}  // namespace meshbed::testbed

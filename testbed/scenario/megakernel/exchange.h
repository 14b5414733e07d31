#pragma once
// Exchanges: a layer's all-reduce as slots, for programs that have one layer after the other.
//
// One-shot (device rings, section 4), n ranks, b bytes: each rank copies its input to where it is sent from, puts all
// of it to each other rank with a flag behind it, waits for theirs, and adds up in rank order, which is the same on
// every rank: the same bits. n-1 messages of b bytes, one hop; 2 n - 1 slots for the sends, 2 (n-1) for what comes.
// Each layer has its own place for what arrives, so that nobody waits for room; across epochs the batch fence keeps
// them apart.

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
};

/// The id after which the sum is in `output`. `after`: what makes the input.
ring::Word add_one_shot(coll::SlotBuilder& builder, const ExchangeShape& shape, coll::Area input, coll::Area output,
                        ring::Word after);

/// One end of many: done when all are. kNobody where there are none.
ring::Word joined(coll::SlotBuilder& builder, const std::vector<ring::Word>& ends);

/// What one-shot slots must come to, element by element: inputs[0] combined with inputs[1], and so on, by the engine's
/// kernels. Serial, without slots.
std::vector<std::byte> sum_in_rank_order(const std::vector<std::vector<std::byte>>& inputs, coll::DataType type,
                                         coll::ReduceOp op);

}  // namespace meshbed::testbed

#include "testbed/scenario/megakernel/exchange.h"

#include "plugin/coll/reduce/reduce.h"

namespace meshbed::testbed {

using coll::Area;
using coll::Form;
using coll::Space;
using ring::Word;

Word add_one_shot(coll::SlotBuilder& builder, const ExchangeShape& shape, Area input, Area output, Word after) {
  const std::uint64_t bytes = shape.count * coll::size_of(shape.type);
  const Area sent = builder.staged(bytes);
  const Word ready = builder.add_copy(input, sent, bytes, after);
  for (int step = 1; step < shape.ranks; ++step) {
    builder.add_put((shape.rank + step) % shape.ranks, 0, sent, bytes, ready);
  }
  std::vector<Area> areas(static_cast<std::size_t>(shape.ranks), sent);
  std::vector<Word> there(static_cast<std::size_t>(shape.ranks), ready);
  for (int step = 1; step < shape.ranks; ++step) {
    const int peer = (shape.rank - step + shape.ranks) % shape.ranks;
    const auto index = static_cast<std::size_t>(peer);
    areas[index] = builder.staged(bytes);
    there[index] = builder.add_wait(peer, 0, {areas[index], bytes});
  }
  const std::uint64_t partial_bytes = coll::size_of(coll::accumulator_of(shape.type));
  Area sum = areas[0];
  Word end = there[0];
  for (std::size_t index = 1; index < areas.size(); ++index) {
    const bool last = index + 1 == areas.size();
    const Form form = areas.size() == 2 ? Form::kOnly : index == 1 ? Form::kFirst : last ? Form::kLast : Form::kBetween;
    const Area result = last ? output : builder.staged(shape.count * partial_bytes);
    end = builder.add_reduce(form, sum, areas[index], result, shape.count, end, there[index]);
    sum = result;
  }
  return end;
}

Word joined(coll::SlotBuilder& builder, const std::vector<Word>& ends) {
  Word end = ring::kNobody;
  for (const Word one : ends) end = end == ring::kNobody ? one : builder.add_join(end, one);
  return end;
}

std::vector<std::byte> sum_in_rank_order(const std::vector<std::vector<std::byte>>& inputs, coll::DataType type,
                                         coll::ReduceOp op) {
  const coll::ReduceKernels kernels = coll::reduce_kernels(type, op);
  const auto ranks = static_cast<std::uint32_t>(inputs.size());
  std::vector<std::byte> result(inputs.front().size());
  const std::uint64_t count = result.size() / coll::size_of(type);
  if (ranks == 2) {
    kernels.only(result.data(), inputs[0].data(), inputs[1].data(), count, ranks);
    return result;
  }
  std::vector<std::byte> partial(count * coll::size_of(coll::accumulator_of(type))), next(partial.size());
  kernels.first(partial.data(), inputs[0].data(), inputs[1].data(), count, ranks);
  for (std::size_t index = 2; index + 1 < inputs.size(); ++index) {
    kernels.between(next.data(), partial.data(), inputs[index].data(), count, ranks);
    partial.swap(next);
  }
  kernels.last(result.data(), partial.data(), inputs.back().data(), count, ranks);
  return result;
}

}  // namespace meshbed::testbed

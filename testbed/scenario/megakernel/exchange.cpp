#include "testbed/scenario/megakernel/exchange.h"

#include <map>
#include <utility>

#include "plugin/coll/reduce/reduce.h"

namespace meshbed::testbed {

using coll::Area;
using coll::Form;
using coll::Landing;
using coll::SlotBuilder;
using coll::Space;
using ring::Word;

namespace {

/// The inputs of all ranks, on one rank.
struct Gathered {
  std::vector<Area> areas;  // [rank]
  std::vector<Word> there;  // [rank] the id after which it is present
};

class Exchange {
 public:
  Exchange(SlotBuilder& builder, const ExchangeShape& shape, Area input, Word after)
      : builder_(builder), shape_(shape), bytes_(shape.count * coll::size_of(shape.type)) {
    const Area sent = builder_.staged(bytes_);
    const Word ready = builder_.add_copy(input, sent, bytes_, after);
    gathered_.areas.assign(static_cast<std::size_t>(shape_.ranks), sent);
    gathered_.there.assign(static_cast<std::size_t>(shape_.ranks), ready);
  }

  Gathered direct() {
    const Area sent = gathered_.areas[index_of(shape_.rank)];
    const Word ready = gathered_.there[index_of(shape_.rank)];
    for (int step = 1; step < shape_.ranks; ++step) builder_.add_put(at(step), 0, sent, bytes_, ready);
    for (int step = 1; step < shape_.ranks; ++step) {
      const int peer = at(-step);
      const Area landing = builder_.staged(bytes_);
      gathered_.areas[index_of(peer)] = landing;
      gathered_.there[index_of(peer)] = builder_.add_wait(peer, 0, {landing, bytes_});
    }
    return std::move(gathered_);
  }

  /// By distance: everything that travels d hops is sent before any wait for it, so that any number of lanes
  /// suffices.
  Gathered round_the_ring() {
    for (int source = 0; source < shape_.ranks; ++source) {
      if (source != shape_.rank) gathered_.areas[index_of(source)] = builder_.staged(bytes_);
    }
    const int farthest = shape_.ranks / 2;
    for (int distance = 1; distance <= farthest; ++distance) {
      for (const int direction : {1, -1}) {
        const int source = at(-direction * (distance - 1));
        const Landing part = part_at(source, distance, direction);
        if (part.size_bytes == 0) continue;
        builder_.add_put(at(direction), 0, part.area, part.size_bytes, gathered_.there[index_of(source)]);
      }
      std::map<int, std::vector<Word>> ends;  // by source
      for (const int direction : {1, -1}) {
        const int source = at(-direction * distance);
        const Landing part = part_at(source, distance, direction);
        if (part.size_bytes > 0) ends[source].push_back(builder_.add_wait(at(-direction), 0, part));
      }
      for (const auto& [source, waits] : ends) gathered_.there[index_of(source)] = joined(builder_, waits);
    }
    return std::move(gathered_);
  }

 private:
  static std::size_t index_of(int rank) { return static_cast<std::size_t>(rank); }
  int at(int step) const { return (shape_.rank + step + shape_.ranks) % shape_.ranks; }

  /// The part of a source's input that goes to the rank `distance` hops away in this direction: all of it, or half of
  /// it to the opposite rank, which is reached both ways.
  Landing part_at(int source, int distance, int direction) const {
    const Area whole = gathered_.areas[index_of(source)];
    if (2 * distance < shape_.ranks) return {whole, bytes_};
    const auto [begin, count] = coll::part_of(shape_.count, 2, direction > 0 ? 0 : 1);
    const std::uint64_t size = coll::size_of(shape_.type);
    return {{whole.space, whole.offset_bytes + begin * size}, count * size};
  }

  SlotBuilder& builder_;
  const ExchangeShape& shape_;
  std::uint64_t bytes_;
  Gathered gathered_;
};

Gathered gather(SlotBuilder& builder, const ExchangeShape& shape, Area input, Word after) {
  Exchange exchange(builder, shape, input, after);
  return shape.forwards ? exchange.round_the_ring() : exchange.direct();
}

}  // namespace

Word add_one_shot(SlotBuilder& builder, const ExchangeShape& shape, Area input, Area output, Word after) {
  const auto [areas, there] = gather(builder, shape, input, after);
  const std::uint64_t partial_bytes = coll::size_of(coll::accumulator_of(shape.type));
  Area sum = areas[0];
  Word end = there[0];
  for (std::size_t index = 1; index < areas.size(); ++index) {
    const bool last = index + 1 == areas.size();
    const Form form = areas.size() == 2 ? Form::kOnly : index == 1 ? Form::kFirst : last ? Form::kLast : Form::kBetween;
    const Area result = last ? output : builder.staged(shape.count * partial_bytes);
    end = builder.add_reduce(form, sum, areas[index], result, shape.count, end, there[index]);
    if (form != Form::kOnly) builder.keep_partial_on_chip();
    sum = result;
  }
  return end;
}

void add_one_shot_gather(SlotBuilder& builder, const ExchangeShape& shape, Area input, Area output) {
  const auto [areas, there] = gather(builder, shape, input, ring::kNoId);
  const std::uint64_t bytes = shape.count * coll::size_of(shape.type);
  // After the arrival of the other inputs: one copy at a time, as they share the memory; the rank's own comes last.
  Word copied = ring::kNoId;
  for (std::size_t step = 1; step <= areas.size(); ++step) {
    const std::size_t index = (static_cast<std::size_t>(shape.rank) + step) % areas.size();
    copied = builder.add_copy(areas[index], {output.space, output.offset_bytes + index * bytes}, bytes, there[index],
                              copied);
  }
}

Word joined(coll::SlotBuilder& builder, const std::vector<Word>& ends) {
  Word end = ring::kNoId;
  for (const Word one : ends) end = end == ring::kNoId ? one : builder.add_join(end, one);
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

#include "testbed/workload/pattern.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "plugin/coll/reduce/reduce.h"

namespace pattern_test {

using namespace meshbed::testbed;
using namespace meshbed::coll;

namespace {

constexpr DataType kFloat = DataType::kFloat32;

template <typename Body>
void each_type(Body body) {
  for (int type = 0; type < kDataTypes; ++type) body(static_cast<DataType>(type));
}

/// `count` elements of whatever type.
std::vector<std::byte> filled(const Pattern& pattern, DataType type, std::size_t count) {
  std::vector<std::byte> values(count * size_of(type));
  fill(pattern, type, values.data(), count);
  return values;
}

}  // namespace

TEST_CASE("a filled buffer has no wrong element, and one changed element is one wrong element, in every type") {
  each_type([](DataType type) {
    for (const std::size_t count : {0, 1, 255, 256, 600}) {
      const Pattern pattern = rank_pattern(3, 17, 5);
      std::vector<std::byte> values = filled(pattern, type, count);
      CHECK(count_wrong(pattern, type, values.data(), count) == 0);
      CHECK(first_wrong(pattern, type, values.data(), count) == count);
      for (std::size_t index = 0; index < count; ++index) {
        std::byte& last = values[(index + 1) * size_of(type) - 1];
        last ^= std::byte{1};
        CHECK(count_wrong(pattern, type, values.data(), count) == 1);
        CHECK(first_wrong(pattern, type, values.data(), count) == index);
        last ^= std::byte{1};
      }
    }
  });
}

TEST_CASE("what comes out is what the ranks contribute, reduced by the engine's own kernels, in every type") {
  constexpr std::size_t kCount = 333;
  each_type([](DataType type) {
    if (!is_reducible(type)) return;
    for (int number = 0; number < kReduceOps; ++number) {
      const auto op = static_cast<ReduceOp>(number);
      for (const int ranks : {1, 2, 3, 8, 20}) {
        const ReduceKernels& kernels = reduce_kernels(type, op);
        const auto n = static_cast<std::uint32_t>(ranks);
        std::vector<std::byte> elements(kCount * size_of(type)), partial(kCount * size_of(accumulator_of(type)));
        const auto own = [&](int rank) { return filled(rank_pattern(rank, 1000, 3, op, ranks), type, kCount); };
        if (ranks == 1) elements = own(0);
        if (ranks == 2) kernels.only(elements.data(), own(0).data(), own(1).data(), kCount, n);
        if (ranks > 2) {
          kernels.first(partial.data(), own(0).data(), own(1).data(), kCount, n);
          for (int rank = 2; rank < ranks - 1; ++rank) {
            kernels.between(partial.data(), partial.data(), own(rank).data(), kCount, n);
          }
          kernels.last(elements.data(), partial.data(), own(ranks - 1).data(), kCount, n);
        }
        const Pattern expected = reduced_pattern(ranks, 1000, 3, op);
        INFO(name_of(type), " ", name_of(op), " of ", ranks);
        CHECK(count_wrong(expected, type, elements.data(), kCount) == 0);
      }
    }
  });
}

TEST_CASE("sums stay exact in float up to 5000 ranks") {
  const Pattern pattern = reduced_pattern(5000, 0, 0);
  CHECK(pattern.scale * 31 + pattern.offset < 16777216);
}

TEST_CASE("a chunk from another place shows, whatever power of two it is off by") {
  constexpr std::size_t kCount = 4096;
  for (std::uint32_t shift = 1; shift != 0; shift <<= 1U) {
    const std::vector<std::byte> values = filled(rank_pattern(0, shift, 0), kFloat, kCount);
    CHECK_MESSAGE(count_wrong(rank_pattern(0, 0, 0), kFloat, values.data(), kCount) > kCount / 2, "shift ", shift);
  }
}

TEST_CASE("the result of another iteration, and one that misses a rank, show, whatever the reduction") {
  constexpr std::size_t kCount = 1024;
  const std::vector<std::byte> other = filled(reduced_pattern(3, 0, 1), kFloat, kCount);
  CHECK(count_wrong(reduced_pattern(3, 0, 2), kFloat, other.data(), kCount) > kCount / 2);

  for (int number = 0; number < kReduceOps; ++number) {
    const auto op = static_cast<ReduceOp>(number);
    for (int missing = 0; missing < 3; ++missing) {
      // One rank twice in the place of another.
      std::vector<float> result(kCount), own(kCount);
      fill(rank_pattern((missing + 1) % 3, 0, 1, op, 3), kFloat, result.data(), kCount);
      for (const int rank : {(missing + 1) % 3, (missing + 2) % 3}) {
        fill(rank_pattern(rank, 0, 1, op, 3), kFloat, own.data(), kCount);
        reduce_kernels(kFloat, op).last(result.data(), result.data(), own.data(), kCount, 1);
      }
      if (op == ReduceOp::kAverage) {
        for (float& value : result) value /= 3;
      }
      INFO(name_of(op), " without ", missing);
      CHECK(count_wrong(reduced_pattern(3, 0, 1, op), kFloat, result.data(), kCount) > kCount / 6);
    }
  }
}

TEST_CASE("a NaN is wrong, and is said") {
  const float value = std::numeric_limits<float>::quiet_NaN();
  CHECK(count_wrong(rank_pattern(0, 0, 0), kFloat, &value, 1) == 1);
  CHECK(say_wrong(rank_pattern(4, 0, 0), kFloat, &value, 0) == "nan instead of 4");
  const std::uint16_t one = 0x3f80;
  CHECK(say_wrong(rank_pattern(4, 0, 0), DataType::kBfloat16, &one, 0) == "1 instead of 4");
  const std::int8_t less = -3;
  CHECK(say_wrong(rank_pattern(4, 0, 0), DataType::kInt8, &less, 0) == "-3 instead of 4");
}

}  // namespace pattern_test

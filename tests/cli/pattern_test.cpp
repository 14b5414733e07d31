#include "cli/pattern.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

using namespace meshbed::cli;

TEST_CASE("a filled buffer has no wrong element, and one changed element is one wrong element") {
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, std::size_t{255}, std::size_t{256}, std::size_t{1000}}) {
    std::vector<float> values(count);
    const Pattern pattern = rank_pattern(3, 17, 5);
    fill(pattern, values.data(), count);
    CHECK(count_wrong(pattern, values.data(), count) == 0);
    CHECK(first_wrong(pattern, values.data(), count) == count);
    for (std::size_t index = 0; index < count; ++index) {
      values[index] += 1;
      CHECK(count_wrong(pattern, values.data(), count) == 1);
      CHECK(first_wrong(pattern, values.data(), count) == index);
      values[index] -= 1;
    }
  }
}

TEST_CASE("the sum over ranks is the sum of what the ranks contribute, exactly") {
  for (const int ranks : {1, 2, 3, 8, 64}) {
    for (std::uint32_t index = 0; index < 200; ++index) {
      float sum = 0;
      for (int rank = 0; rank < ranks; ++rank) sum += value_at(rank_pattern(rank, 1000, 3), index);
      CHECK(value_at(sum_pattern(ranks, 1000, 3), index) == sum);
    }
  }
}

TEST_CASE("sums stay exact in float up to 5000 ranks") {
  const Pattern pattern = sum_pattern(5000, 0, 0);
  CHECK(pattern.scale * 31 + pattern.offset < 16777216.0F);
}

TEST_CASE("a chunk from another place shows, whatever power of two it is off by") {
  constexpr std::size_t kCount = 4096;
  std::vector<float> values(kCount);
  for (std::uint32_t shift = 1; shift != 0; shift <<= 1U) {
    fill(rank_pattern(0, shift, 0), values.data(), kCount);
    CHECK_MESSAGE(count_wrong(rank_pattern(0, 0, 0), values.data(), kCount) > kCount / 2, "shift ", shift);
  }
}

TEST_CASE("the result of another iteration, and a sum that misses one rank for another, show") {
  constexpr std::size_t kCount = 1024;
  std::vector<float> values(kCount);
  fill(sum_pattern(3, 0, 1), values.data(), kCount);
  CHECK(count_wrong(sum_pattern(3, 0, 2), values.data(), kCount) > kCount / 2);

  // Rank 1 twice in the place of rank 2.
  fill(sum_pattern(3, 0, 1), values.data(), kCount);
  for (float& value : values) value -= 1;
  CHECK(count_wrong(sum_pattern(3, 0, 1), values.data(), kCount) == kCount);
}

TEST_CASE("a NaN is wrong") {
  float value = std::numeric_limits<float>::quiet_NaN();
  CHECK(count_wrong(rank_pattern(0, 0, 0), &value, 1) == 1);
}

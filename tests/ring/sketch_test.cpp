// The count-min sketch: the golden buckets of its specification, and what any such sketch must keep.

#include "plugin/ring/telemetry/sketch.h"

#include <doctest/doctest.h>

#include <array>
#include <map>

#include "plugin/base/prng.h"

namespace sketch_test {

namespace {

using namespace meshbed;
using ring::CountMinSketch;

CountMinSketch sketch(std::uint32_t depth, std::uint32_t width) {
  auto made = CountMinSketch::create({.depth = depth, .width = width});
  REQUIRE(made.has_value());
  return *made;
}

}  // namespace

TEST_CASE("golden: buckets of the count-min sketch") {
  struct Row {
    std::uint32_t key;
    std::array<std::uint64_t, 4> narrow, wide;
  };
  constexpr std::array<Row, 7> kRows{{{0, {47, 116, 79, 108}, {431, 500, 335, 492}},
                                      {1, {65, 73, 94, 82}, {193, 713, 350, 722}},
                                      {2, {78, 66, 13, 55}, {718, 578, 269, 55}},
                                      {6, {0, 105, 47, 90}, {0, 489, 815, 858}},
                                      {7, {87, 1, 1, 66}, {471, 257, 257, 194}},
                                      {0xf101, {59, 69, 116, 89}, {315, 837, 372, 601}},
                                      {0xffffffff, {64, 63, 118, 41}, {448, 703, 374, 681}}}};
  const CountMinSketch narrow = sketch(4, 128), wide = sketch(4, 1024);
  for (const Row& row : kRows) {
    CAPTURE(row.key);
    for (std::uint32_t index = 0; index < 4; ++index) {
      CHECK(narrow.bucket(index, row.key) == index * 128 + row.narrow.at(index));
      CHECK(wide.bucket(index, row.key) == index * 1024 + row.wide.at(index));
    }
  }
}

TEST_CASE("a sketch never counts too little, and each of its rows counts everything") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    Prng random(seed);
    const auto depth = static_cast<std::uint32_t>(1 + random.below(5));
    const auto width = static_cast<std::uint32_t>(1 + random.below(64));
    CountMinSketch first = sketch(depth, width), second = sketch(depth, width), whole = sketch(depth, width);
    std::map<std::uint32_t, std::uint64_t> exact;
    std::uint64_t total = 0;
    for (int count = 0; count < 300; ++count) {
      const auto key = static_cast<std::uint32_t>(random.below(100));
      const std::uint64_t amount = random.below(1000);
      REQUIRE((random.chance(0.5) ? first : second).add(key, amount).has_value());
      REQUIRE(whole.add(key, amount).has_value());
      exact[key] += amount;
      total += amount;
    }
    for (const auto& [key, amount] : exact) CHECK(whole.estimate(key) >= amount);
    for (std::uint32_t row = 0; row < depth; ++row) {
      std::uint64_t sum = 0;
      for (std::uint32_t column = 0; column < width; ++column) sum += whole.counters()[row * width + column];
      CHECK(sum == total);
    }
    // Two that are merged are what one would have counted.
    REQUIRE(first.merge(second).has_value());
    CHECK(first.counters() == whole.counters());
  }
}

TEST_CASE("a sketch refuses what it cannot count, and counts nothing of it") {
  CHECK(!CountMinSketch::create({.depth = 0, .width = 128}));
  CHECK(!CountMinSketch::create({.depth = 4, .width = 0}));
  CHECK(!CountMinSketch::create({.depth = 0xffffffff, .width = 0xffffffff}));
  CountMinSketch full = sketch(2, 8);
  REQUIRE(full.add(7, ~std::uint64_t{0}).has_value());
  const auto before = full.counters();
  CHECK(!full.add(7));
  CHECK(full.counters() == before);
  CountMinSketch other = sketch(2, 8);
  REQUIRE(other.add(7).has_value());
  CHECK(!full.merge(other));
  CHECK(full.counters() == before);
  const Result<void> merged = full.merge(sketch(2, 9));
  REQUIRE(!merged);
  CHECK(merged.error().text == "a sketch of 2 x 9 cannot be merged into one of 2 x 8");
}

}  // namespace sketch_test

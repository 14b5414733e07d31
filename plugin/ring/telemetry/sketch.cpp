#include "plugin/ring/telemetry/sketch.h"

#include <algorithm>
#include <limits>
#include <string>

#include "plugin/base/prng.h"
#include "plugin/ring/abi/words.h"

namespace meshbed::ring {
namespace {

constexpr std::uint64_t kRowStep = 0x9e3779b97f4a7c15ULL;
constexpr std::uint64_t kCountersMax = std::uint64_t{1} << 28U;

bool would_overflow(std::uint64_t counter, std::uint64_t amount) {
  return amount > std::numeric_limits<std::uint64_t>::max() - counter;
}

std::string text_of(const CountMinSketch::Shape& shape) {
  return std::to_string(shape.depth) + " x " + std::to_string(shape.width);
}

}  // namespace

CountMinSketch::CountMinSketch(const Shape& shape)
    : shape_(shape), counters_(std::uint64_t{shape.depth} * shape.width) {}

Result<CountMinSketch> CountMinSketch::create(const Shape& shape) {
  const std::uint64_t counters = std::uint64_t{shape.depth} * shape.width;
  if (counters == 0)
    return refused("a sketch of " + text_of(shape) + " has no counter; depth and width are at least 1");
  if (counters > kCountersMax) {
    return refused("a sketch of " + text_of(shape) + " has more than " + std::to_string(kCountersMax) + " counters");
  }
  return CountMinSketch(shape);
}

std::uint64_t CountMinSketch::bucket(std::uint32_t row, std::uint32_t key) const {
  return std::uint64_t{row} * shape_.width + mix64(std::uint64_t{key} ^ (row * kRowStep)) % shape_.width;
}

Result<void> CountMinSketch::add(std::uint32_t key, std::uint64_t amount) {
  for (std::uint32_t row = 0; row < shape_.depth; ++row) {
    if (would_overflow(counters_[bucket(row, key)], amount)) {
      return refused("the sketch has counted key " + std::to_string(key) + " up to its last bit");
    }
  }
  for (std::uint32_t row = 0; row < shape_.depth; ++row) counters_[bucket(row, key)] += amount;
  return ok();
}

std::uint64_t CountMinSketch::estimate(std::uint32_t key) const {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (std::uint32_t row = 0; row < shape_.depth; ++row) least = std::min(least, counters_[bucket(row, key)]);
  return least;
}

Result<void> CountMinSketch::merge(const CountMinSketch& other) {
  if (!(shape_ == other.shape_)) {
    return refused("a sketch of " + text_of(other.shape_) + " cannot be merged into one of " + text_of(shape_));
  }
  for (std::size_t index = 0; index < counters_.size(); ++index) {
    if (would_overflow(counters_[index], other.counters_[index])) return refused("two sketches count beyond 64 bits");
  }
  for (std::size_t index = 0; index < counters_.size(); ++index) counters_[index] += other.counters_[index];
  return ok();
}

}  // namespace meshbed::ring

#include "cli/pattern.h"

#include <algorithm>

namespace meshbed::cli {
namespace {

// A constant trip count lets gcc -O2 vectorise the inner loops without a remainder loop of its own.
constexpr std::size_t kBlock = 256;

/// Folds all 32 bits to 5, so that a shift by any power of two changes it.
inline std::uint32_t fold(std::uint32_t x) {
  return (x ^ (x >> 5U) ^ (x >> 10U) ^ (x >> 15U) ^ (x >> 20U) ^ (x >> 25U) ^ (x >> 30U)) & 31U;
}

inline float element(const Pattern& pattern, std::uint32_t index) {
  return pattern.scale * static_cast<float>(static_cast<std::int32_t>(fold(index + pattern.first + pattern.salt))) +
         pattern.offset;
}

}  // namespace

Pattern rank_pattern(int rank, std::uint32_t first, std::uint32_t salt) {
  return {.first = first, .salt = salt, .scale = 1, .offset = static_cast<float>(rank)};
}

Pattern sum_pattern(int ranks, std::uint32_t first, std::uint32_t salt) {
  const auto n = static_cast<std::int64_t>(ranks);
  return {.first = first, .salt = salt, .scale = static_cast<float>(n), .offset = static_cast<float>(n * (n - 1) / 2)};
}

float value_at(const Pattern& pattern, std::uint32_t index) { return element(pattern, index); }

void fill(const Pattern& pattern, float* values, std::size_t count) {
  const Pattern local = pattern;  // the compiler need not fear that `values` is the pattern
  std::size_t start = 0;
  for (; start + kBlock <= count; start += kBlock) {
    float* block = values + start;
    const auto base = static_cast<std::uint32_t>(start);
    for (std::uint32_t i = 0; i < kBlock; ++i) block[i] = element(local, base + i);
  }
  for (; start < count; ++start) values[start] = element(local, static_cast<std::uint32_t>(start));
}

std::uint64_t count_wrong(const Pattern& pattern, const float* values, std::size_t count) {
  const Pattern local = pattern;
  std::uint64_t wrong = 0;
  std::size_t start = 0;
  for (; start + kBlock <= count; start += kBlock) {
    const float* block = values + start;
    const auto base = static_cast<std::uint32_t>(start);
    std::int32_t wrong_here = 0;
    for (std::uint32_t i = 0; i < kBlock; ++i) wrong_here += block[i] != element(local, base + i) ? 1 : 0;
    wrong += static_cast<std::uint64_t>(wrong_here);
  }
  for (; start < count; ++start) wrong += values[start] != element(local, static_cast<std::uint32_t>(start)) ? 1U : 0U;
  return wrong;
}

std::size_t first_wrong(const Pattern& pattern, const float* values, std::size_t count) {
  std::size_t index = 0;
  while (index < count && values[index] == element(pattern, static_cast<std::uint32_t>(index))) ++index;
  return index;
}

}  // namespace meshbed::cli

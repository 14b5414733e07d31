#pragma once
// Pattern: the numbers that a collective is fed with and checked against.
//
// value(rank, i, salt) = h(i + salt) + rank, h in 0..31 by folding the index. Small integers, so that float sums are
// exact in any order: over n ranks the sum is n * h + n(n-1)/2, below 2^24 for n up to 5000. A missing or doubled rank,
// a shifted chunk and the result of another iteration (another salt) all show. Nothing is stored: the expected value is
// computed again while it is compared. Cost: about 1 ns for 4 elements.

#include <cstddef>
#include <cstdint>

namespace meshbed::cli {

/// scale * h(first + i + salt) + offset for i = 0, 1, ...: one rank's input, or the sum over ranks.
struct Pattern {
  std::uint32_t first = 0;
  std::uint32_t salt = 0;
  float scale = 1;
  float offset = 0;
};

/// What `rank` contributes, from element `first` on.
Pattern rank_pattern(int rank, std::uint32_t first, std::uint32_t salt);
/// The sum of what ranks 0..ranks-1 contribute, from element `first` on.
Pattern sum_pattern(int ranks, std::uint32_t first, std::uint32_t salt);

float value_at(const Pattern& pattern, std::uint32_t index);
void fill(const Pattern& pattern, float* values, std::size_t count);
/// Elements that differ from the pattern (a NaN differs).
std::uint64_t count_wrong(const Pattern& pattern, const float* values, std::size_t count);
/// Index of the first that differs; `count` where none does.
std::size_t first_wrong(const Pattern& pattern, const float* values, std::size_t count);

}  // namespace meshbed::cli

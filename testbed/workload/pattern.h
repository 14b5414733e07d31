#pragma once
// Pattern: the input numbers and the expected results of a collective, in every element type.
//
// h(j) is 0..31 by folding the bits of j, which combines an element's index, the start offset and the salt. The input
// of rank r of n, and the result, in whole numbers:
//
//   moved, sum, average   h + r                     n h + n(n-1)/2 and that over n: below 2^24 for n up to 5000
//   product               2 if 4 divides h + r,     2 to the number of ranks for which it does
//                         else 1
//   max, min              h + (r + j) mod m         h + m - 1 and h; m = n, 64 at most: any rank may be the largest
//
// So float results are exact in any order, those of the half types are these numbers rounded once, and integers wrap. A
// missing or repeated rank, a shifted chunk and the result of another iteration (another salt) are all detected. No
// expected values are stored: they are computed during the comparison. Cost for float32: about 1 ns for 4 elements.

#include <cstddef>
#include <cstdint>
#include <string>

#include "plugin/coll/plan/datatype.h"

namespace meshbed::testbed {

enum class PatternKind : std::uint8_t {
  kLinear,   // (scale * h + offset) / divisor
  kPower,    // 2 to the number of those among h + offset, h + offset + 1, ... (scale of them) that 4 divides
  kRotated,  // h + (offset + j) mod scale
};

struct Pattern {
  PatternKind kind = PatternKind::kLinear;
  std::uint32_t first = 0;
  std::uint32_t salt = 0;
  std::int32_t scale = 1;
  std::int32_t offset = 0;
  std::int32_t divisor = 1;
};

/// The input of `rank` of `ranks`, from element `first` on, for a reduction; by default for a sum, or for moved data.
Pattern rank_pattern(int rank, std::uint32_t first, std::uint32_t salt, coll::ReduceOp op = coll::ReduceOp::kSum,
                     int ranks = 1);
/// The result of ranks 0..ranks-1, from element `first` on.
Pattern reduced_pattern(int ranks, std::uint32_t first, std::uint32_t salt, coll::ReduceOp op = coll::ReduceOp::kSum);

// Elements of the float8 types are only copied, never computed with.
void fill(const Pattern& pattern, coll::DataType type, void* values, std::size_t count);
/// Numbers whose sums and products depend on their order, if that is so for the type: floats from -2 to 2, integers of
/// any bits.
void fill_rough(int rank, std::uint32_t salt, coll::DataType type, void* values, std::size_t count);
/// The number of elements that differ from the pattern (a NaN differs).
std::uint64_t count_wrong(const Pattern& pattern, coll::DataType type, const void* values, std::size_t count);
/// Index of the first that differs; `count` if none does.
std::size_t first_wrong(const Pattern& pattern, coll::DataType type, const void* values, std::size_t count);
/// "3 instead of 4".
std::string say_wrong(const Pattern& pattern, coll::DataType type, const void* values, std::size_t index);

}  // namespace meshbed::testbed

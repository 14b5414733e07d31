#pragma once
// Operands: the operands of tested forms, drawn from a seed: random bits, special values (zeros, the limits,
// subnormals, infinities, NaNs), values near rounding boundaries, and, for the second and third operand, values near
// the first one, so that comparisons and sums meet their boundaries. The same for both sides.

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "testbed/verify/ptx/form.h"

namespace meshbed::testbed::ptx_twin {

class Operands {
 public:
  /// `count`: a multiple of kBlockThreads.
  Operands(std::uint64_t seed, std::size_t count) : seed_(seed), count_(count) {}
  std::size_t count() const { return count_; }
  std::uint64_t seed() const { return seed_; }
  /// Of one kind, in that place of the instruction (0: %a). Drawn at the first call; kept.
  const std::vector<std::byte>& of(Kind kind, std::size_t place);
  std::uint64_t value(Kind kind, std::size_t place, std::size_t index);

 private:
  std::uint64_t seed_;
  std::size_t count_;
  std::map<std::pair<Kind, std::size_t>, std::vector<std::byte>> all_;
};

/// The element as unsigned bits.
std::uint64_t element(const std::vector<std::byte>& bytes, std::size_t size, std::size_t index);

}  // namespace meshbed::testbed::ptx_twin

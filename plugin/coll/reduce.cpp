#include "plugin/coll/reduce.h"

#include <cstring>

namespace meshbed::coll {
namespace {

// Vector extensions, because -O2 does not vectorise a loop of unknown length; each lane is an ordinary float addition.
constexpr std::uint64_t kLanes = 8;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

}  // namespace

void sum_float32(float* result, const float* arrived, const float* own, std::uint64_t count) {
  std::uint64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Lanes left, right;
    std::memcpy(&left, arrived + i, sizeof left);  // unaligned loads
    std::memcpy(&right, own + i, sizeof right);
    left += right;
    std::memcpy(result + i, &left, sizeof left);
  }
  for (; i < count; ++i) result[i] = arrived[i] + own[i];
}

}  // namespace meshbed::coll

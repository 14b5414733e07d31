#pragma once
// Reduction kernels: element-wise, one rounding per addition, in the order arrived + own (see plan.h).

#include <cstdint>

namespace meshbed::coll {

/// result[i] = arrived[i] + own[i]. `result` may be `arrived` or `own` itself, but must not overlap them otherwise.
/// 2 loads, 1 store per element; no alignment beyond float's is needed.
void sum_float32(float* result, const float* arrived, const float* own, std::uint64_t count);

}  // namespace meshbed::coll

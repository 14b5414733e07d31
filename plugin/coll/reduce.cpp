#include "plugin/coll/reduce.h"

#include "plugin/base/check.h"
#include "plugin/coll/reduce_levels.h"

namespace meshbed::coll {
const char* name_of(VectorLevel level) {
  switch (level) {
    case VectorLevel::kBaseline:
      return "baseline";
    case VectorLevel::kAvx2:
      return "AVX2";
    case VectorLevel::kAvx512:
      return "AVX-512";
  }
  return "unknown";
}

bool has(VectorLevel level) {
  if (level == VectorLevel::kBaseline) return true;
#if defined(__x86_64__)
  // f16c is older than AVX2, and no name that every compiler's builtin knows: all that have the one have the other.
  if (level == VectorLevel::kAvx2) return __builtin_cpu_supports("avx2") != 0;
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
#else
  return false;
#endif
}

VectorLevel best_level() {
  static const VectorLevel best = has(VectorLevel::kAvx512) ? VectorLevel::kAvx512
                                  : has(VectorLevel::kAvx2) ? VectorLevel::kAvx2
                                                            : VectorLevel::kBaseline;
  return best;
}

ReduceKernels reduce_kernels(DataType type, ReduceOp op, VectorLevel level) {
  MESHBED_CHECK_MSG(has(level), "this processor cannot run these kernels");
#if defined(__x86_64__)
  if (level == VectorLevel::kAvx512) {
    if (const ReduceKernels kernels = avx512_kernels(type, op); kernels.only != nullptr) return kernels;
  }
  if (level != VectorLevel::kBaseline) return avx2_kernels(type, op);
#endif
  return baseline_kernels(type, op);
}

}  // namespace meshbed::coll

#include "plugin/coll/reduce/reduce.h"

#include "plugin/base/check.h"
#include "plugin/coll/plan/half.h"
#include "plugin/coll/reduce/reduce_levels.h"

namespace meshbed::coll {
namespace {

Float16 rounded(float value, Float16 /*type*/) { return to_float16(value); }
Bfloat16 rounded(float value, Bfloat16 /*type*/) { return to_bfloat16(value); }

/// By one everywhere but where ranks are averaged, which changes no bit.
template <typename T, bool divides>
void narrow(void* result, const void* arrived, const void* /*own*/, std::uint64_t count, std::uint32_t ranks) {
  const float divisor = divides ? static_cast<float>(ranks) : 1;
  for (std::uint64_t at = 0; at < count; ++at) {
    static_cast<T*>(result)[at] = rounded(static_cast<const float*>(arrived)[at] / divisor, T{});
  }
}

template <typename T>
ReduceFunction narrow_of(ReduceOp op) {
  return op == ReduceOp::kAverage ? narrow<T, true> : narrow<T, false>;
}

}  // namespace

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

PartialKernels partial_kernels(DataType type, ReduceOp op, VectorLevel level) {
  const ReduceFunction join = reduce_kernels(accumulator_of(type), op, level).between;
  if (type == DataType::kFloat16) return {join, narrow_of<Float16>(op)};
  if (type == DataType::kBfloat16) return {join, narrow_of<Bfloat16>(op)};
  return {join, nullptr};
}

}  // namespace meshbed::coll

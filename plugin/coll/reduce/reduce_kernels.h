#pragma once
// The loops of the reductions, for the sources that compile them: each source that includes this is built for other
// processors (reduce_*.cpp), and has all of it for itself, so that no linker takes one's code for another's.

#if defined(__F16C__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <array>
#include <cstdint>

#include "plugin/coll/plan/datatype.h"
#include "plugin/coll/plan/half.h"
#include "plugin/coll/reduce/reduce.h"
#include "plugin/coll/reduce/reduce_element.h"

// A result may be one of its operands itself, element for element: no iteration concerns another.
#if defined(__clang__)
#define MESHBED_EACH_ALONE _Pragma("clang loop vectorize(assume_safety)")
#else
#define MESHBED_EACH_ALONE _Pragma("GCC ivdep")
#endif

namespace meshbed::coll {
namespace {

template <typename Result, typename Arrived, typename Own, typename Join>
inline void join_each(Result* result, const Arrived* arrived, const Own* own, std::uint64_t count, Join join) {
  MESHBED_EACH_ALONE
  for (std::uint64_t at = 0; at < count; ++at) result[at] = written<Result>(join(read(arrived[at]), read(own[at])));
}

#if defined(__F16C__)
// The processor converts float16 itself, eight at a time, which no compiler finds: so in blocks, by way of float32 in
// the nearest cache. The same bits.
inline constexpr std::uint64_t kAtOnce = 8, kBlock = 256;

inline void convert(float* to, const Float16* from, std::uint64_t count) {
  std::uint64_t at = 0;
  for (; at + kAtOnce <= count; at += kAtOnce) {
    _mm256_storeu_ps(to + at, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at))));
  }
  for (; at < count; ++at) to[at] = widen(from[at]);
}

inline void convert(Float16* to, const float* from, std::uint64_t count) {
  std::uint64_t at = 0;
  for (; at + kAtOnce <= count; at += kAtOnce) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + at),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + at), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  for (; at < count; ++at) to[at] = to_float16(from[at]);
}

inline void convert(float* to, const float* from, std::uint64_t count) { std::copy_n(from, count, to); }

template <typename Result, typename Arrived, typename Join>
inline void join_each(Result* result, const Arrived* arrived, const Float16* own, std::uint64_t count, Join join) {
  std::array<float, kBlock> left, right;
  for (std::uint64_t at = 0; at < count; at += kBlock) {
    const std::uint64_t length = std::min(kBlock, count - at);
    convert(left.data(), arrived + at, length);
    convert(right.data(), own + at, length);
    for (std::uint64_t each = 0; each < length; ++each) left[each] = join(left[each], right[each]);
    convert(result + at, left.data(), length);
  }
}
#endif

template <ReduceOp op, typename Result, typename Arrived, typename Own>
void reduce(void* result, const void* arrived, const void* own, std::uint64_t count, std::uint32_t /*ranks*/) {
  join_each(static_cast<Result*>(result), static_cast<const Arrived*>(arrived), static_cast<const Own*>(own), count,
            [](auto left, auto right) { return joined<op>(left, right); });
}

/// The last step of an average, which divides.
template <typename Result, typename Arrived, typename Own>
void average(void* result, const void* arrived, const void* own, std::uint64_t count, std::uint32_t ranks) {
  join_each(static_cast<Result*>(result), static_cast<const Arrived*>(arrived), static_cast<const Own*>(own), count,
            [divisor = static_cast<Divided<AccumulatorOf<Own>>>(ranks)](auto left, auto right) {
              return averaged<AccumulatorOf<Own>>(left, right, divisor);
            });
}

template <ReduceOp op, typename T>
constexpr ReduceKernels kernels_of() {
  using A = AccumulatorOf<T>;
  if constexpr (op == ReduceOp::kAverage) {
    return {.first = reduce<op, A, T, T>,
            .between = reduce<op, A, A, T>,
            .last = average<T, A, T>,
            .only = average<T, T, T>};
  } else {
    return {.first = reduce<op, A, T, T>,
            .between = reduce<op, A, A, T>,
            .last = reduce<op, T, A, T>,
            .only = reduce<op, T, T, T>};
  }
}

template <typename T>
ReduceKernels kernels_of_type(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return kernels_of<ReduceOp::kSum, T>();
    case ReduceOp::kProduct:
      return kernels_of<ReduceOp::kProduct, T>();
    case ReduceOp::kMax:
      return kernels_of<ReduceOp::kMax, T>();
    case ReduceOp::kMin:
      return kernels_of<ReduceOp::kMin, T>();
    case ReduceOp::kAverage:
      return kernels_of<ReduceOp::kAverage, T>();
  }
  return {};
}

// No table: each of its 720 addresses would have to be written into each copy of the library that a simulation loads.
inline ReduceKernels find_kernels(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::kInt8:
      return kernels_of_type<std::int8_t>(op);
    case DataType::kUint8:
      return kernels_of_type<std::uint8_t>(op);
    case DataType::kInt32:
      return kernels_of_type<std::int32_t>(op);
    case DataType::kUint32:
      return kernels_of_type<std::uint32_t>(op);
    case DataType::kInt64:
      return kernels_of_type<std::int64_t>(op);
    case DataType::kUint64:
      return kernels_of_type<std::uint64_t>(op);
    case DataType::kFloat16:
      return kernels_of_type<Float16>(op);
    case DataType::kFloat32:
      return kernels_of_type<float>(op);
    case DataType::kFloat64:
      return kernels_of_type<double>(op);
    case DataType::kBfloat16:
      return kernels_of_type<Bfloat16>(op);
    case DataType::kFloat8e4m3:
    case DataType::kFloat8e5m2:
      break;
  }
  return {};
}

}  // namespace
}  // namespace meshbed::coll

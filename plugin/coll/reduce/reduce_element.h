#pragma once
// One element of a reduction: the same source for the processors' loops (reduce_kernels.h) and for the GPU's
// (reduce_device.h), so that both make the same bits. Each source that includes this has all of it for itself, as
// of reduce_kernels.h. Of a NaN that is computed only that it is one is the same everywhere: x86 keeps an operand's
// bits, a GPU has one NaN.

#include <cstdint>
#include <type_traits>

#include "plugin/coll/plan/datatype.h"
#include "plugin/coll/plan/half.h"

namespace meshbed::coll {
namespace {

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>;
template <typename T>
using AccumulatorOf = std::conditional_t<kIsHalf<T>, float, T>;

template <typename T>
constexpr AccumulatorOf<T> read(T value) {
  if constexpr (kIsHalf<T>) {
    return widen(value);
  } else {
    return value;
  }
}

template <typename T>
constexpr T written(AccumulatorOf<T> value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(value);
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return to_bfloat16(value);
  } else {
    return value;
  }
}

// Integers wrap, as in NCCL: through the unsigned type, where that is defined.
template <typename A>
using Wrapping = typename std::conditional_t<std::is_integral_v<A>, std::make_unsigned<A>, std::type_identity<A>>::type;

// More ranks than an integer type can count may contribute to it.
template <typename A>
using Divided = std::conditional_t<std::is_floating_point_v<A>, A,
                                   std::conditional_t<std::is_signed_v<A>, std::int64_t, std::uint64_t>>;

template <ReduceOp op, typename A>
constexpr A joined(A arrived, A own) {
  if constexpr (op == ReduceOp::kProduct) {
    // Of 8 and 16 bits, int would be multiplied.
    return static_cast<A>(static_cast<Wrapping<A>>(arrived) * static_cast<Wrapping<A>>(own));
  } else if constexpr (op == ReduceOp::kMax) {
    return own != own || arrived > own ? arrived : own;
  } else if constexpr (op == ReduceOp::kMin) {
    return own != own || arrived < own ? arrived : own;
  } else {
    return static_cast<A>(static_cast<Wrapping<A>>(arrived) + static_cast<Wrapping<A>>(own));
  }
}

/// The last step of an average, which divides by as many as contribute.
template <typename A>
constexpr A averaged(A arrived, A own, Divided<A> divisor) {
  return static_cast<A>(static_cast<Divided<A>>(joined<ReduceOp::kSum>(arrived, own)) / divisor);
}

}  // namespace
}  // namespace meshbed::coll

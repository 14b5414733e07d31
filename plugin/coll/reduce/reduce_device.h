#pragma once
// The loops of the reductions on a GPU, for .cu files alone: the operations are the processors' own
// (reduce/reduce_element.h). Compiled with --expt-relaxed-constexpr, so that a GPU may call those, and -fmad=false, so
// that nothing is fused.
//
// All threads that take part run through the elements with one stride; vector - as many elements as the widest of the
// three types has in 16 bytes. Where result and operands stand equally far from a vector's border the elements up to
// the first border and behind the last one go one by one, and all others by whole vectors; elsewhere all go one by one.
// A result may be one of its operands itself, element for element: a thread reads only the elements that it writes.

#include <cstdint>

#include "plugin/coll/reduce/reduce_element.h"

namespace meshbed::coll {
namespace {

template <typename T, unsigned count>
struct alignas(sizeof(T) * count) Vector {
  T at[count];
};

constexpr unsigned larger(unsigned one, unsigned other) { return one > other ? one : other; }

/// How many elements lie before the first border of a vector.
template <typename T, unsigned lanes>
__device__ inline unsigned before_border(const T* at) {
  constexpr unsigned kBytes = sizeof(T) * lanes;
  return static_cast<unsigned>((kBytes - reinterpret_cast<std::uintptr_t>(at) % kBytes) % kBytes / sizeof(T));
}

// The conversions that a GPU has instructions for: the bits of half.h's, but for what a NaN carries.
template <typename T>
__device__ inline AccumulatorOf<T> taken(T value) {
  if constexpr (std::is_same_v<T, Float16>) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
    return wide;
  } else {
    return read(value);
  }
}

template <typename T>
__device__ inline T given(AccumulatorOf<T> value) {
  T narrow{};
  if constexpr (std::is_same_v<T, Float16>) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(value));
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(value));
  } else {
    narrow = value;
  }
  return narrow;
}

/// result[i] = join(arrived[i], own[i]) in the accumulator's type, by thread `thread` of `threads`.
template <typename Result, typename Arrived, typename Own, typename Join>
__device__ inline void reduce_each(Result* result, const Arrived* arrived, const Own* own, std::uint64_t count,
                                   std::uint64_t thread, std::uint64_t threads, Join join) {
  constexpr unsigned kLanes = 16 / larger(sizeof(Result), larger(sizeof(Arrived), sizeof(Own)));
  std::uint64_t head = before_border<Result, kLanes>(result);
  const bool equally_far = head == before_border<Arrived, kLanes>(arrived) && head == before_border<Own, kLanes>(own);
  if (!equally_far || head > count) head = count;
  const std::uint64_t vectors = (count - head) / kLanes;
  auto* const results = reinterpret_cast<Vector<Result, kLanes>*>(result + head);
  const auto* const arriveds = reinterpret_cast<const Vector<Arrived, kLanes>*>(arrived + head);
  const auto* const owns = reinterpret_cast<const Vector<Own, kLanes>*>(own + head);
#pragma unroll 1
  for (std::uint64_t at = thread; at < vectors; at += threads) {
    const Vector<Arrived, kLanes> left = arriveds[at];
    const Vector<Own, kLanes> right = owns[at];
    Vector<Result, kLanes> made;
#pragma unroll
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      made.at[lane] = given<Result>(join(taken(left.at[lane]), taken(right.at[lane])));
    }
    results[at] = made;
  }
#pragma unroll 1
  for (std::uint64_t one = thread; one < count - vectors * kLanes; one += threads) {
    const std::uint64_t at = one < head ? one : one + vectors * kLanes;
    result[at] = given<Result>(join(taken(arrived[at]), taken(own[at])));
  }
}

/// A form of reduce.h's by its three types; `divides`: the last step of an average.
template <ReduceOp op, bool divides, typename Result, typename Arrived, typename Own>
__device__ inline void reduce_form(void* result, const void* arrived, const void* own, std::uint64_t count,
                                   std::uint32_t ranks, std::uint64_t thread, std::uint64_t threads) {
  using A = AccumulatorOf<Own>;
  const auto divisor = static_cast<Divided<A>>(ranks);
  reduce_each(static_cast<Result*>(result), static_cast<const Arrived*>(arrived), static_cast<const Own*>(own), count,
              thread, threads, [divisor](A left, A right) {
                if constexpr (divides) {
                  return averaged<A>(left, right, divisor);
                } else {
                  return joined<op>(left, right);
                }
              });
}

/// The form `narrow`: partial results become elements, each divided where they are averaged.
template <bool divides, typename T>
__device__ inline void narrow_form(void* result, const void* partials, std::uint64_t count, std::uint32_t ranks,
                                   std::uint64_t thread, std::uint64_t threads) {
  const float divisor = divides ? static_cast<float>(ranks) : 1;
  const auto* const from = static_cast<const float*>(partials);
  reduce_each(static_cast<T*>(result), from, from, count, thread, threads,
              [divisor](float value, float) { return divides ? value / divisor : value; });
}

}  // namespace
}  // namespace meshbed::coll

#pragma once
// Loops over the lanes of a warp, and what the handlers read and write there.

#include <bit>
#include <cstdint>

#include "sim/cuda/ptx/warp.h"

namespace meshbed::sim::ptx {

/// Registers have no type: the same bytes are read as integers and as floats.
template <typename T>
struct Aliased {
  typedef T type __attribute__((may_alias));
};

template <typename T>
inline typename Aliased<T>::type* lanes_at(const Warp& warp, std::uint32_t place) {
  return reinterpret_cast<typename Aliased<T>::type*>(warp.base[place >> 31U] + (place & ~kPoolBit));
}

inline std::uint32_t mask_at(const Warp& warp, std::uint32_t place) { return *lanes_at<std::uint32_t>(warp, place); }

inline void set_mask(const Warp& warp, std::uint32_t place, std::uint32_t lanes, std::uint32_t value) {
  auto* mask = lanes_at<std::uint32_t>(warp, place);
  *mask = (*mask & ~lanes) | (value & lanes);
}

/// How many lanes a mask has. In place, because a processor's own instruction for it is not in every build's reach, and
/// what stands for it is a call.
inline std::uint32_t count_lanes(std::uint32_t lanes) {
  if (lanes == kAllLanes) return kLanes;
  lanes -= lanes >> 1U & 0x55555555U;
  lanes = (lanes & 0x33333333U) + (lanes >> 2U & 0x33333333U);
  return ((lanes + (lanes >> 4U)) & 0x0f0f0f0fU) * 0x01010101U >> 24U;
}

/// Does `body(lane)` for the lanes of the mask. Where all others are idle it does it for 32 of them, so that the
/// compiler makes vectors of it: `body` must be harmless for any bits.
template <typename Body>
inline void each_lane(const Warp& warp, std::uint32_t lanes, Body body) {
  if ((lanes | warp.idle) == kAllLanes) {
#pragma GCC ivdep
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) body(lane);
    return;
  }
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1)
    body(static_cast<std::uint32_t>(std::countr_zero(rest)));
}

/// The same, never for others.
template <typename Body>
inline void each_active(std::uint32_t lanes, Body body) {
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1)
    body(static_cast<std::uint32_t>(std::countr_zero(rest)));
}

/// The same, quicker where the mask is whole.
template <typename Body>
inline void each_of(std::uint32_t lanes, Body body) {
  if (lanes == kAllLanes) {
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) body(lane);
    return;
  }
  each_active(lanes, body);
}

/// A register of `bytes` at a lane, as a number (low bits).
inline std::uint64_t read_lane(const std::byte* values, std::uint32_t bytes, std::uint32_t lane) {
  std::uint64_t value = 0;
  __builtin_memcpy(&value, values + std::size_t{lane} * bytes, bytes < 8 ? bytes : 8);
  return value;
}
inline void write_lane(std::byte* values, std::uint32_t bytes, std::uint32_t lane, std::uint64_t value) {
  __builtin_memcpy(values + std::size_t{lane} * bytes, &value, bytes < 8 ? bytes : 8);
}
inline std::byte* place_at(const Warp& warp, std::uint32_t place) {
  return warp.base[place >> 31U] + (place & ~kPoolBit);
}

}  // namespace meshbed::sim::ptx

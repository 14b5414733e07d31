#pragma once
// Loads and stores of vectors, and what they share with those of scalars (memory.cpp).

#include <cstdint>
#include <cstring>

#include "sim/cuda/ptx/access.h"
#include "sim/cuda/ptx/decode.h"
#include "sim/cuda/ptx/race/race.h"

namespace meshbed::sim::ptx {

inline constexpr std::uint8_t kFlagSigned = 0x80;  // the element's sign fills a wider register

/// For the check for races: accesses that volatile or an order makes part of a program's own synchronisation are none.
inline void note_race(Warp& warp, const Instruction& in, std::uint32_t lanes, std::uint32_t bytes, bool write,
                      const Access& access) {
  if (warp.grid->races != nullptr && (in.flags & kFlagStrong) == 0)
    warp.grid->races->note(warp, in, lanes, bytes, write, access);
}

template <typename T>
inline T value_at(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

inline std::uint64_t filled(const Instruction& in, std::uint64_t raw, std::uint32_t bytes) {
  if ((in.flags & kFlagSigned) == 0 || bytes >= 8) return raw;
  const std::uint32_t shift = 64 - bytes * 8;
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(raw << shift) >> shift);
}

/// `count` elements of `b` bytes, to or from the registers of vector `extra`, d_bytes each. Each lane's vector of up to
/// 16 bytes is one access; of 32 bytes each half is.
void load_vector(Warp& warp, const Instruction& in, std::uint32_t lanes);
void store_vector(Warp& warp, const Instruction& in, std::uint32_t lanes);

}  // namespace meshbed::sim::ptx

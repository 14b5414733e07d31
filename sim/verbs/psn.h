#pragma once
// Packet sequence numbers: 24 bits that wrap. Half of the space lies ahead of any number, half behind it
// (InfiniBand Architecture Specification, volume 1, 9.7.1).

#include <cstdint>

namespace meshbed::sim::verbs {

inline constexpr std::uint32_t kPsnMask = 0xffffff;

constexpr std::uint32_t psn_add(std::uint32_t psn, std::uint64_t packets) {
  return static_cast<std::uint32_t>(psn + packets) & kPsnMask;
}

constexpr std::uint32_t psn_before(std::uint32_t psn) { return (psn - 1) & kPsnMask; }

/// How far `psn` is ahead of `reference`; negative where it is behind.
constexpr std::int32_t psn_ahead(std::uint32_t psn, std::uint32_t reference) {
  return static_cast<std::int32_t>((psn - reference) << 8U) >> 8;
}

}  // namespace meshbed::sim::verbs

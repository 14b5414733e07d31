#pragma once
// Units. The unit stands last in every name (latency_ns, size_bytes); these are the types and factors behind them.

#include <cstdint>

namespace meshbed {

/// Simulated time: integer picoseconds, so that 4 KiB at 400 Gb/s (81 920 ps) is exact. 2^63 ps is 106 days.
using Picoseconds = std::int64_t;

inline constexpr Picoseconds kPicosecondsPerNanosecond = 1'000;
inline constexpr Picoseconds kPicosecondsPerMicrosecond = 1'000'000;
inline constexpr Picoseconds kPicosecondsPerMillisecond = 1'000'000'000;
inline constexpr Picoseconds kPicosecondsPerSecond = 1'000'000'000'000;

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

/// Time to put `bytes` on a wire of `rate_bps` bits per second, rounded to the nearest picosecond.
constexpr Picoseconds wire_time_ps(std::uint64_t bytes, std::uint64_t rate_bps) {
  const __uint128_t scaled = static_cast<__uint128_t>(bytes) * 8U * static_cast<__uint128_t>(kPicosecondsPerSecond);
  return static_cast<Picoseconds>((scaled + rate_bps / 2U) / rate_bps);
}

}  // namespace meshbed

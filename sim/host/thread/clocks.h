#pragma once
// The clocks that ranks read: all of them the one virtual clock, at fixed offsets.

#include <ctime>
#include <optional>

#include "plugin/base/units.h"

namespace meshbed::sim {

/// CLOCK_REALTIME when the simulation starts: 2026-01-01T00:00:00Z.
inline constexpr std::int64_t kRealtimeStartSeconds = 1'767'225'600;
/// CLOCK_MONOTONIC, _RAW and BOOTTIME when the simulation starts; not 0, which programs take for "never".
inline constexpr std::int64_t kMonotonicStartSeconds = 1'000;

/// The time of `clock` at simulated time `now`; nullopt for a clock that there is not. CPU-time clocks advance with the
/// virtual clock: simulated work takes no other time.
std::optional<timespec> clock_time(clockid_t clock, Picoseconds now);
/// The simulated time at which `clock` will show `until`; nullopt where the clock or the nanoseconds are not valid.
/// Times before the start are 0, times beyond the range of Picoseconds kForever.
std::optional<Picoseconds> deadline_of(clockid_t clock, const timespec& until);
/// A relative time; nullopt where it is negative or its nanoseconds are out of range.
std::optional<Picoseconds> duration_of(const timespec& duration);

}  // namespace meshbed::sim

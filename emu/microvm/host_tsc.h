#pragma once
// The time stamp counter that a translated guest reads: this host's own.

#include <cstdint>

namespace meshbed::emu {

/// Cycles a millisecond of this processor's time stamp counter, measured for 20 ms against the monotonic clock; 0 where
/// a processor has none.
std::uint64_t host_tsc_khz();

}  // namespace meshbed::emu

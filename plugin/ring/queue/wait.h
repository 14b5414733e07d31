#pragma once
// Bounded waits for what other threads, or a device, write into shared memory.

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <string>

#include "plugin/base/result.h"
#include "plugin/ring/abi/abi.h"

namespace meshbed::ring {

inline constexpr std::int64_t kNsPerMs = 1'000'000, kNsPerS = 1'000'000'000;
// Looks at a slot before the thread yields the processor; with more threads than processors, more looks only waste
// time.
inline constexpr Word kLooksPerYield = 64;
inline constexpr std::int64_t kTimeoutMost_ms =
    86'400'000;  // a day: longer ones would overflow no sooner, and mean never

inline std::int64_t wait_clock_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * kNsPerS + now.tv_nsec;
}

/// False: not within the time. `slots`: that one look of the condition looks at.
template <typename Condition>
bool wait_until(std::int64_t timeout_ms, Word slots, const Condition& holds) {
  const Word looks = std::max<Word>(1, kLooksPerYield / std::max<Word>(1, slots));
  const std::int64_t end_ns =
      wait_clock_ns() + std::min(std::max<std::int64_t>(timeout_ms, 0), kTimeoutMost_ms) * kNsPerMs;
  while (true) {
    for (Word look = 0; look < looks; ++look) {
      if (holds()) return true;
    }
    if (wait_clock_ns() >= end_ns) return false;
    sched_yield();
  }
}

inline Error waited_in_vain(const std::string& text, std::int64_t timeout_ms) {
  return {.code = ErrorCode::kTimeout,
          .scope = Scope::kRequest,
          .text = text + " within " + std::to_string(timeout_ms) + " ms"};
}

}  // namespace meshbed::ring

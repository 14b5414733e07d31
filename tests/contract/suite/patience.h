#pragma once
// Patience: how long a test waits for anything. Generous, because an emulated node on a busy machine is slow; a test
// that waits in vain says so, and no verdict depends on how long something took.

#include <sched.h>

#include <chrono>

namespace meshbed::contract {

inline constexpr int kMeetingPatience_ms = 120'000;
inline constexpr int kPatience_ms = 45'000;  // for a completion or an event that has to come
/// For what must not come, where nothing else shows that it would be here by now.
inline constexpr int kSilence_ms = 300;

class Deadline {
 public:
  explicit Deadline(int duration_ms) : end_(Clock::now() + std::chrono::milliseconds(duration_ms)) {}
  bool passed() const { return Clock::now() >= end_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point end_;
};

/// Looks again and again until look() is true; false where the time is over. Lets others run in between.
template <typename Look>
bool wait_for(int patience_ms, Look look) {
  for (const Deadline deadline(patience_ms); !look(); ::sched_yield()) {
    if (deadline.passed()) return false;
  }
  return true;
}

}  // namespace meshbed::contract

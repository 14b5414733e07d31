#pragma once
// The room's one door to the clock: wall time that never runs back. The emulated world lives in real time; nothing in
// it is deterministic, and no result may depend on what is read here.

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace meshbed::emu {

/// Seconds since an arbitrary start.
inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Nanoseconds since the same start as CLOCK_MONOTONIC's.
inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// A moment to wait for at most, as poll(2) wants it.
class Deadline {
 public:
  static Deadline in_s(double seconds) { return Deadline(now_s() + seconds); }

  bool passed() const { return now_s() >= end_s_; }
  double end_s() const { return end_s_; }
  /// Milliseconds left, rounded up, not below 0.
  int left_ms() const { return static_cast<int>(std::clamp((end_s_ - now_s()) * 1e3 + 0.999, 0.0, 1e9)); }

 private:
  explicit Deadline(double end_s) : end_s_(end_s) {}
  double end_s_ = 0;
};

}  // namespace meshbed::emu

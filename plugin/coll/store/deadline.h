#pragma once
// Deadline: a moment on CLOCK_MONOTONIC after which a wait gives up. The engine's one door to the clock.

#include <cstdint>

namespace meshbed::coll {

inline constexpr std::int64_t kNanosecondsPerMillisecond = 1'000'000;

/// CLOCK_MONOTONIC; virtual in a simulation.
std::int64_t now_ns();

class Deadline {
 public:
  static Deadline never() { return Deadline(-1); }
  static Deadline after_ms(std::int64_t milliseconds);
  /// Options say "no deadline" with zero.
  static Deadline after_ms_or_never(std::int64_t milliseconds) {
    return milliseconds > 0 ? after_ms(milliseconds) : never();
  }

  bool passed() const { return at_ns_ >= 0 && now_ns() >= at_ns_; }
  /// For poll(2): -1 for ever; otherwise rounded up, so that a wait of this length ends past the deadline.
  int remaining_ms() const;
  bool is_never() const { return at_ns_ < 0; }
  bool operator<(const Deadline& other) const { return !is_never() && (other.is_never() || at_ns_ < other.at_ns_); }

 private:
  explicit Deadline(std::int64_t at_ns) : at_ns_(at_ns) {}
  std::int64_t at_ns_;
};

}  // namespace meshbed::coll

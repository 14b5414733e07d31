#pragma once
// The one door to time of the product, and of what runs in real time around it: the monotonic clock, and Deadline, a
// moment after which a wait gives up.

#include <cstdint>

namespace meshbed {

inline constexpr std::int64_t kNsPerMs = 1'000'000;

/// CLOCK_MONOTONIC in nanoseconds; virtual in a simulation.
std::int64_t now_ns();
/// The same in seconds.
inline double now_s() { return static_cast<double>(now_ns()) / 1e9; }

class Deadline {
 public:
  /// Never.
  Deadline() = default;
  static Deadline never() { return {}; }
  static Deadline after_ms(std::int64_t milliseconds);
  static Deadline after_s(double seconds);
  /// Options express "no deadline" by zero.
  static Deadline after_ms_or_never(std::int64_t milliseconds) {
    return milliseconds > 0 ? after_ms(milliseconds) : never();
  }
  void put_off(std::int64_t duration_ns) {
    if (is_set()) at_ns_ += duration_ns;
  }

  bool is_set() const { return at_ns_ >= 0; }
  bool is_never() const { return !is_set(); }
  bool passed() const { return is_set() && now_ns() >= at_ns_; }
  /// For poll(2): -1 for ever; otherwise rounded up, so that a wait of this length ends past the deadline.
  int remaining_ms() const;
  bool operator<(const Deadline& other) const { return is_set() && (other.is_never() || at_ns_ < other.at_ns_); }

 private:
  explicit Deadline(std::int64_t at_ns) : at_ns_(at_ns) {}
  std::int64_t at_ns_ = -1;
};

}  // namespace meshbed

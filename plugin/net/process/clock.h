#pragma once
// The one door to time.

#include <cstdint>
#include <ctime>

namespace meshbed::net {

inline constexpr std::int64_t kNsPerMs = 1'000'000;

/// CLOCK_MONOTONIC in nanoseconds.
inline std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// A moment to give up at; default: never.
class Deadline {
 public:
  Deadline() = default;
  static Deadline in_ms(std::int64_t duration_ms) {
    Deadline deadline;
    if (duration_ms > 0) deadline.at_ns_ = now_ns() + duration_ms * 1'000'000;
    return deadline;
  }
  void put_off(std::int64_t duration_ns) {
    if (at_ns_ != 0) at_ns_ += duration_ns;
  }
  bool is_set() const { return at_ns_ != 0; }
  bool passed() const { return is_set() && now_ns() >= at_ns_; }

 private:
  std::int64_t at_ns_ = 0;
};

}  // namespace meshbed::net

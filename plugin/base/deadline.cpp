#include "plugin/base/deadline.h"

#include <time.h>

#include <algorithm>
#include <limits>

namespace meshbed {

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

Deadline Deadline::after_ms(std::int64_t milliseconds) {
  // A year is for ever, and keeps the sum below far from overflow.
  constexpr std::int64_t kYear = 365LL * 24 * 3600 * 1000;
  return Deadline(now_ns() + std::clamp<std::int64_t>(milliseconds, 0, kYear) * kNsPerMs);
}

Deadline Deadline::after_s(double seconds) {
  constexpr double kYear_s = 365.0 * 24 * 3600;
  return Deadline(now_ns() + static_cast<std::int64_t>(std::clamp(seconds, 0.0, kYear_s) * 1e9));
}

int Deadline::remaining_ms() const {
  if (is_never()) return -1;
  const std::int64_t left_ns = std::max<std::int64_t>(0, at_ns_ - now_ns());
  const std::int64_t left_ms = (left_ns + kNsPerMs - 1) / kNsPerMs;
  return static_cast<int>(std::min<std::int64_t>(left_ms, std::numeric_limits<int>::max()));
}

}  // namespace meshbed

#include "testbed/world/replay/planned_poll.h"

#include <algorithm>

namespace meshbed::testbed {
namespace {

// sim/engine/world.cpp
constexpr Picoseconds kPauseMin = 100 * kPicosecondsPerMicrosecond;
constexpr Picoseconds kPauseMax = 10 * kPicosecondsPerMillisecond;

}  // namespace

void PlannedPoll::spin(PlannedLook look, Picoseconds now_ps, PlannedMark& mark) {
  if (spin_epoch_ != epoch_ || spin_activity_ != activity_) {
    if (spin_activity_ != activity_) pause_ps_ = 0;
    spin_epoch_ = epoch_;
    spin_activity_ = activity_;
    mark = ++circle_;
    circle_first_ = look.queue;
    circle_size_ = 1;
    circle_repeats_ = 0;
    return;
  }
  if (mark != circle_) {
    mark = circle_;
    ++circle_size_;
    return;
  }
  const std::size_t expected = std::max(circle_size_, circle_before_);
  const bool closed = circle_first_ == look.queue && circle_size_ == expected;
  if (!closed && ++circle_repeats_ < 2 * expected) return;
  circle_before_ = circle_size_;
  pause_ps_ = std::clamp(2 * pause_ps_, kPauseMin, kPauseMax);
  stands_ = true;
  at_ = look;
  deadline_ps_ = now_ps + pause_ps_;
}

}  // namespace meshbed::testbed

#include "testbed/world/replay/planned_poll.h"

#include <algorithm>

namespace meshbed::testbed {
namespace {

// sim/engine/world.cpp
constexpr Picoseconds kPauseMin = 100 * kPicosecondsPerMicrosecond;
constexpr Picoseconds kPauseMax = 10 * kPicosecondsPerMillisecond;

}  // namespace

void PlannedPoll::spin(PlannedLook look, Picoseconds now_ps) {
  if (spin_epoch_ != epoch_ || spin_activity_ != activity_) {
    if (spin_activity_ != activity_) pause_ps_ = 0;
    spin_epoch_ = epoch_;
    spin_activity_ = activity_;
    circle_.assign(1, look.queue);
    circle_repeats_ = 0;
    return;
  }
  const bool back_at_first = circle_.front() == look.queue;
  if (!back_at_first && std::find(circle_.begin(), circle_.end(), look.queue) == circle_.end()) {
    circle_.push_back(look.queue);
    return;
  }
  const std::size_t expected = std::max(circle_.size(), circle_before_);
  const bool closed = back_at_first && circle_.size() == expected;
  if (!closed && ++circle_repeats_ < 2 * expected) return;
  circle_before_ = circle_.size();
  pause_ps_ = std::clamp(2 * pause_ps_, kPauseMin, kPauseMax);
  stands_ = true;
  at_ = look;
  deadline_ps_ = now_ps + pause_ps_;
}

}  // namespace meshbed::testbed

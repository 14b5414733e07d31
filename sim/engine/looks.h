#pragma once
// Looks: events that only look at memory again, of kernels that wait (World::look_again).
//
// A look that found nothing finds nothing again before something else happens, so the one before the next other event
// is the first that counts. They are kept apart from the event queue for that: the queue's next time is when something
// may change. Few at a time (one a kernel that waits), so that a plain list does.

#include <algorithm>
#include <vector>

#include "sim/engine/event_queue.h"

namespace meshbed::sim {

class Looks {
 public:
  /// A program may count its looks: at most so many are left out in a row.
  static constexpr std::int64_t kMostLeftOut = 256;
  /// And where nothing but looks is left, so that the run is soon known to have stalled.
  static constexpr std::int64_t kMostLeftOutAlone = 16384;

  /// period_ps 0: it is not put off.
  void push(const Event& event, Picoseconds period_ps) { waiting_.push_back({event, period_ps, period_ps > 0}); }
  bool empty() const { return waiting_.empty(); }

  /// Nothing else happens before `other_ps`: leaves out looks that come earlier, of each that has not been put off yet.
  void put_off_until(Picoseconds other_ps, std::int64_t most = kMostLeftOut) {
    for (Look& look : waiting_) {
      if (!look.can_be_put_off || look.event.when_ps >= other_ps) continue;
      look.can_be_put_off = false;
      const std::int64_t earlier = (other_ps - look.event.when_ps - 1) / look.period_ps + 1;
      look.event.when_ps += std::min(earlier, most) * look.period_ps;
    }
  }
  Picoseconds next_ps() const { return first()->event.when_ps; }
  Event pop() {
    const auto found = waiting_.begin() + (first() - waiting_.cbegin());
    const Event event = found->event;
    waiting_.erase(found);
    return event;
  }

 private:
  struct Look {
    Event event;
    Picoseconds period_ps;
    bool can_be_put_off;
  };

  /// In order of (time, host, push).
  std::vector<Look>::const_iterator first() const {
    return std::min_element(waiting_.begin(), waiting_.end(), [](const Look& one, const Look& other) {
      return one.event.when_ps != other.event.when_ps ? one.event.when_ps < other.event.when_ps
                                                      : one.event.host < other.event.host;
    });
  }

  std::vector<Look> waiting_;
};

}  // namespace meshbed::sim

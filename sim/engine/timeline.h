#pragma once
// Timeline: virtual time and future events. A World is one, with simulated threads; an EventTimeline is one with events
// alone, on which a fabric can be driven without processes, SimGrid or libraries.
//
// Time is integer picoseconds. Events are ordered by (time, host, sequence).

#include <cstdint>

#include "plugin/base/units.h"

namespace meshbed::sim {

/// An event's code: a plain function with two words of state, so that scheduling allocates nothing.
using EventFunction = void (*)(void* self, std::uint64_t argument);

class Timeline {
 public:
  virtual ~Timeline() = default;

  Picoseconds now() const { return now_ps_; }
  /// Runs function(self, argument) at `when` (>= now). `host` is the node index that the event belongs to: events of
  /// equal time run in order of host, then of scheduling.
  virtual void at(Picoseconds when, int host, EventFunction function, void* self, std::uint64_t argument) = 0;
  void after(Picoseconds delay, int host, EventFunction function, void* self, std::uint64_t argument) {
    at(now_ps_ + delay, host, function, self, argument);
  }

  /// Events of this function happen even on nodes that stand still, where nodes can: what is on a wire is on its way.
  virtual void never_hold(EventFunction /*function*/) {}

 protected:
  Timeline() = default;
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  Picoseconds now_ps_ = 0;
};

}  // namespace meshbed::sim

#pragma once
// EventTimeline: virtual time with nothing in it but events.

#include "sim/engine/event_queue.h"
#include "sim/engine/timeline.h"

namespace meshbed::sim {

class EventTimeline final : public Timeline {
 public:
  void at(Picoseconds when, int host, EventFunction function, void* self, std::uint64_t argument) override {
    MESHBED_CHECK_MSG(when >= now_ps_, "an event in the past");
    queue_.push({when, host, function, self, argument});
  }
  /// Runs events until there are none; how many.
  std::uint64_t run() {
    std::uint64_t events = 0;
    for (; !queue_.empty(); ++events) {
      const Event event = queue_.pop();
      now_ps_ = event.when_ps;
      event.function(event.self, event.argument);
    }
    return events;
  }

 private:
  EventQueue queue_;
};

}  // namespace meshbed::sim

#pragma once
// EventQueue: what will happen, in strict order of (time, host, sequence).
//
// A binary heap of plain records; pushing and popping allocate nothing once the heap has grown. O(log n) each.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plugin/base/check.h"
#include "sim/engine/world.h"

namespace meshbed::sim {

struct Event {
  Picoseconds when_ps;
  int host;
  EventFunction function;
  void* self;
  std::uint64_t argument;
  std::uint64_t sequence = 0;  // given by the queue
};

class EventQueue {
 public:
  void push(Event event) {
    MESHBED_CHECK_MSG(event.when_ps >= last_popped_ps_, "time never runs back");
    event.sequence = next_sequence_++;
    heap_.push_back(event);
    std::push_heap(heap_.begin(), heap_.end(), Later{});
  }

  bool empty() const { return heap_.empty(); }
  Picoseconds next_ps() const { return heap_.front().when_ps; }

  Event pop() {
    std::pop_heap(heap_.begin(), heap_.end(), Later{});
    const Event event = heap_.back();
    heap_.pop_back();
    MESHBED_CHECK_MSG(event.when_ps >= last_popped_ps_, "time never runs back");
    last_popped_ps_ = event.when_ps;
    return event;
  }

 private:
  // An object, not a function: the heap's algorithms inline it.
  struct Later {
    bool operator()(const Event& left, const Event& right) const {
      if (left.when_ps != right.when_ps) return left.when_ps > right.when_ps;
      if (left.host != right.host) return left.host > right.host;
      return left.sequence > right.sequence;
    }
  };

  std::vector<Event> heap_;
  std::uint64_t next_sequence_ = 0;
  Picoseconds last_popped_ps_ = 0;
};

}  // namespace meshbed::sim

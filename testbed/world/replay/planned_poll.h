#pragma once
// PlannedPoll: where a rank that polls its completion queues stands still, without a thread.
//
// In a run a rank's progress thread goes round its channel runs and waits in the second empty look at a completion
// queue (sim/engine/world.h, spin()); when something happens to its process it goes on from there. In which order a
// rank does several things of one instant depends on that. Here the thread is a loop that returns instead of waiting:
// what the loop asks after the look in which it stands still gets no answer, and when it is woken it begins its pass
// again, and what it asks before that look gets none either. Nothing has moved in these, so that both are one.

#include <cstddef>
#include <cstdint>

#include "plugin/base/units.h"

namespace meshbed::testbed {

/// A look at a completion queue, or the store's socket: which, and the call that looks.
struct PlannedLook {
  enum class Call : std::uint8_t { kTest, kSend, kStore };
  std::uint32_t queue = 0;
  Call call = Call::kTest;
  bool operator==(const PlannedLook&) const = default;
};
/// The last circle of looks that had a queue; one for each queue.
using PlannedMark = std::uint64_t;

class PlannedPoll {
 public:
  enum class Answer : std::uint8_t {
    kNothing,  // not to be asked now, or found empty
    kLook,     // to be looked at: it has something, or it is where the rank stood still
  };

  /// Before a call looks. `is_empty`: the queue has nothing. `mark`: the queue's.
  Answer ask(PlannedLook look, bool is_empty, Picoseconds now_ps, PlannedMark& mark) {
    if (stands_) return Answer::kNothing;
    if (goes_on_) {
      if (look != at_) return Answer::kNothing;
      goes_on_ = false;
      return Answer::kLook;
    }
    if (!is_empty) return Answer::kLook;
    spin(look, now_ps, mark);
    return Answer::kNothing;
  }
  /// Whether a call has to be left out: the rank stands still, or comes to its place first.
  bool passes_over() const { return stands_ || goes_on_; }

  void note_activity() { ++activity_; }
  /// Something happened to the rank's process. True: it stood still, and is to go on.
  bool signal() {
    ++epoch_;
    return wake();
  }
  /// The pause is over. True as signal()'s.
  bool pause_ended(Picoseconds now_ps) {
    if (!stands_ || is_woken_ || now_ps < deadline_ps_) return false;
    ++spin_epoch_;  // looks at everything once more before the next pause
    return wake();
  }
  /// Before the rank's loop goes on.
  void go_on() {
    if (!stands_) return;
    stands_ = is_woken_ = false;
    goes_on_ = true;
  }
  /// It has come to where it stood still without asking again: the look at the store.
  void has_gone_on() { goes_on_ = false; }
  bool stands() const { return stands_; }
  bool goes_on() const { return goes_on_; }
  Picoseconds deadline_ps() const { return deadline_ps_; }
  Picoseconds timer_ps = -1;  // when the event that ends the pause is due; -1: none is queued

 private:
  bool wake() {
    if (!stands_ || is_woken_) return false;
    return is_woken_ = true;
  }
  /// As World::spin().
  void spin(PlannedLook look, Picoseconds now_ps, PlannedMark& mark);

  bool stands_ = false, is_woken_ = false, goes_on_ = false;
  PlannedLook at_;
  std::uint64_t epoch_ = 0, activity_ = 0;
  std::uint64_t spin_epoch_ = ~std::uint64_t{0}, spin_activity_ = 0;
  PlannedMark circle_ = 0;          // under way
  std::uint32_t circle_first_ = 0;  // the queue in which it began
  std::size_t circle_size_ = 0, circle_before_ = 0, circle_repeats_ = 0;
  Picoseconds pause_ps_ = 0, deadline_ps_ = -1;
};

}  // namespace meshbed::testbed

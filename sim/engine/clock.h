#pragma once
// Clock: drives a World over SimGrid's clock.
//
// Where threads are fibers (fiber.h) run() takes turns with them and the events, and SimGrid has nothing to do
// (measured on a ring all-reduce of 8 ranks: 3,500 instructions less a message, of 20,400).
//
// Where they are SimGrid's actors, one more of these, the pacer, lets every runnable thread run until it blocks, then
// goes on to the next event's time. Events run in SimGrid's maestro context: there, resuming an actor is a plain call
// (measured: 98 ns a wake against 312 ns from an actor; 64 actors, SimGrid 3.32). With the fluid fabric the pacer
// sleeps in SimGrid's time, which flows advance as well; then it may be woken before its sleep is over. Without it time
// is the World's own.

#include <memory>

#include "sim/engine/world.h"

namespace meshbed::sim {

class Clock {
 public:
  explicit Clock(World& world);
  ~Clock();

  /// An event was queued for `when`: a sleeping pacer must not oversleep it.
  void event_added(Picoseconds when);
  /// SimGrid activities (flows) outside the event queue are under way: their number changes by `change`.
  void activity(int change);
  Outcome run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace meshbed::sim

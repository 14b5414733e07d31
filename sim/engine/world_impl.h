#pragma once
// What the sources of World share: its queue, its threads, its clock, and what a thread runs on.

#include <functional>
#include <memory>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

#include "sim/engine/clock.h"
#include "sim/engine/event_queue.h"
#include "sim/engine/fiber.h"
#include "sim/engine/looks.h"
#include "sim/engine/world.h"

namespace meshbed::sim {

/// What a thread runs on: a fiber where the World has some (FiberRounds), a SimGrid actor otherwise.
struct Thread::Actor {
  void start(Thread& thread, std::function<void()> body);
  void suspend();
  void resume(Thread& thread);
  void yield();

  simgrid::s4u::ActorPtr actor;
  std::unique_ptr<Fiber> fiber;
};

/// Placed around every call into SimGrid that may switch to other actors: when the call returns, its thread is the
/// running one again. (To ask SimGrid for the running actor costs ten times a load, and a rank's redirected calls need
/// it all the time.)
class SimgridCall {
 public:
  SimgridCall() : self_(running) {}
  ~SimgridCall() {
    running = self_;
    ++turns;
    begin_turn();
  }
  SimgridCall(const SimgridCall&) = delete;
  SimgridCall& operator=(const SimgridCall&) = delete;

  static inline Thread* running = nullptr;             // nullptr: maestro, the pacer, a flow's worker, or no simulation
  static inline std::uint64_t turns = 0;               // how often `running` was set: see World::turns
  static inline void (*turn_hook)(Thread*) = nullptr;  // World::set_turn_hook
  static void begin_turn() {
    if (turn_hook != nullptr) turn_hook(running);
  }

 private:
  Thread* self_;
};

/// The order of threads that are fibers: in rounds, as SimGrid would run actors. A round consists of the threads that
/// could run at its beginning; threads that yielded in it, or were started, run in the next one before threads that
/// another thread has woken.
struct FiberRounds {
  explicit FiberRounds(const StackPool::Options& options) : stacks(options) {}
  void join(Thread& thread) { next.push_back(&thread); }
  void run_round();

  StackPool stacks;
  std::vector<Thread*> round, next;
};

struct World::Impl {
  explicit Impl(World& world);
  std::vector<std::string> waiters(const World& world) const;
  /// The thread has something to stand on, and is about to run: it counts from now on.
  void begins(const World& world, Thread& thread);
  /// False where the event happens although its node stands still.
  bool hold(const World& world, const Event& event);

  EventQueue queue;
  Looks looks;
  std::uint64_t looks_run = 0;
  Picoseconds last_event_ps = 0;  // when the last one was that is no look
  std::vector<std::unique_ptr<Thread>> threads;
  // Woken by threads or the pacer, to be resumed from maestro: from an actor, SimGrid's resume would let the woken one
  // run before the call returns, in the middle of the code that woke it.
  std::vector<Thread*> woken;
  // Of nodes that stand still, in the order in which they were held up.
  std::vector<Event> held_events;
  std::vector<Thread*> held_threads;
  bool in_maestro = false;
  int runnable = 0;                     // threads that are not blocked and have not ended
  int live = 0;                         // threads that are no daemons and have not ended
  std::unique_ptr<FiberRounds> fibers;  // nullptr: threads are SimGrid's actors
  Clock clock;

  bool nothing_due() const { return queue.empty() && looks.empty(); }
  /// When the next event takes place; there is one. Where `can_put_off`, looks before the next other event are left
  /// out.
  Picoseconds next_ps(bool can_put_off);
  /// The event of that time.
  Event pop();

  static Impl& of(World& world) { return *world.impl_; }
  static void set_now(World& world, Picoseconds now) { world.now_ps_ = now; }
  static Picoseconds last_progress(const World& world) { return world.last_progress_ps_; }
  static void resume_actor(Thread& thread) { thread.actor_->resume(thread); }
  static std::unique_ptr<Fiber>& fiber_of(Thread& thread) { return thread.actor_->fiber; }
  static void run_event(World& world, const Event& event) {
    if (world.stopped(event.host) && of(world).hold(world, event)) return;
    ++world.events_run_;
    event.function(event.self, event.argument);
  }
};

}  // namespace meshbed::sim

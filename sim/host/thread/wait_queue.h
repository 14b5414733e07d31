#pragma once
// WaitQueue: the threads that wait for one thing, first come, first woken.
//
// An all-zero queue is an empty one, so that it can live inside a statically initialised pthread object. Its links are
// Waiters on the stacks of the threads that wait: nothing is allocated.

#include <limits>
#include <string>

#include "sim/engine/world.h"

namespace meshbed::sim {

class Waiter;

/// No deadline.
inline constexpr Picoseconds kForever = std::numeric_limits<Picoseconds>::max();

struct WaitQueue {
  Waiter* first;
  Waiter* last;

  bool empty() const { return first == nullptr; }
};

/// One thread's place in one queue; leaves it when woken or destroyed. A thread may stand in many queues (poll).
class Waiter {
 public:
  Waiter(WaitQueue& queue, Thread& thread);
  ~Waiter() { leave(); }
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  bool woken() const { return woken_; }
  Thread& thread() const { return thread_; }

 private:
  friend bool wake_one(WaitQueue& queue);
  void leave();

  WaitQueue* queue_;  // nullptr once it left
  Waiter* previous_;
  Waiter* next_ = nullptr;
  Thread& thread_;
  bool woken_ = false;
};

/// Puts the current thread into `queue` and blocks it until woken (true) or until `deadline` (false). Keeps errno:
/// simulated threads share one, and a wait that succeeds must not show another thread's.
bool wait_in(WaitQueue& queue, const WaitNote& note, Picoseconds deadline = kForever);
/// Blocks the current thread until any wake, at most until `deadline`; may return early without a reason. Keeps errno.
void wait_any(const WaitNote& note, Picoseconds deadline);

/// Wakes the thread that has waited longest; false if none waits.
bool wake_one(WaitQueue& queue);
void wake_all(WaitQueue& queue);
/// The thread that wake_one() would wake; the queue must not be empty.
Thread& first_waiter(const WaitQueue& queue);

/// `now + duration`, kForever where that does not fit.
Picoseconds deadline_after(Picoseconds duration);

}  // namespace meshbed::sim

#include "sim/host/thread/wait_queue.h"

#include <cerrno>
#include <vector>

namespace meshbed::sim {

Waiter::Waiter(WaitQueue& queue, Thread& thread) : queue_(&queue), previous_(queue.last), thread_(thread) {
  (previous_ != nullptr ? previous_->next_ : queue.first) = this;
  queue.last = this;
}

void Waiter::leave() {
  if (queue_ == nullptr) return;
  (previous_ != nullptr ? previous_->next_ : queue_->first) = next_;
  (next_ != nullptr ? next_->previous_ : queue_->last) = previous_;
  queue_ = nullptr;
}

bool wait_in(WaitQueue& queue, const WaitNote& note, Picoseconds deadline) {
  const Waiter waiter(queue, *World::current());
  while (!waiter.woken()) {
    if (deadline != kForever && World::get().now() >= deadline) return false;
    wait_any(note, deadline);
  }
  return true;
}

void wait_any(const WaitNote& note, Picoseconds deadline) {
  const int kept_errno = errno;
  if (deadline == kForever) {
    World::get().block(note);
  } else {
    World::get().block_until(deadline, note);
  }
  errno = kept_errno;
}

bool wake_one(WaitQueue& queue) {
  if (queue.empty()) return false;
  Waiter& waiter = *queue.first;
  waiter.woken_ = true;
  waiter.leave();
  World::get().wake(waiter.thread_);
  return true;
}

void wake_all(WaitQueue& queue) {
  while (wake_one(queue)) continue;
}

Thread& first_waiter(const WaitQueue& queue) { return queue.first->thread(); }

Picoseconds deadline_after(Picoseconds duration) {
  const Picoseconds now = World::get().now();
  return duration >= kForever - now ? kForever : now + duration;
}

}  // namespace meshbed::sim

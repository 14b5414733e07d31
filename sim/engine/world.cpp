// World: processes, threads, waiting and polling. The clock that drives them is in clock.cpp.
#include "sim/engine/world.h"

#include <algorithm>
#include <utility>

#include "plugin/base/check.h"
#include "sim/engine/clock.h"
#include "sim/engine/fabric.h"
#include "sim/engine/network.h"
#include "sim/engine/unused_code.h"
#include "sim/engine/world_impl.h"

namespace meshbed::sim {
namespace {

World* g_world = nullptr;  // one World at a time: SimGrid itself allows one engine a process

// A polling thread looks again after this long even if nothing happened to its process, in case it watches memory that
// another of its threads writes without any call that the simulator sees. Doubles up to the maximum while idle.
constexpr Picoseconds kSpinPauseMin = 100 * kPicosecondsPerMicrosecond;
constexpr Picoseconds kSpinPauseMax = 10 * kPicosecondsPerMillisecond;

}  // namespace

Thread::Thread() = default;
Thread::~Thread() = default;

World::World(WorldOptions options) : options_(std::move(options)) {
  MESHBED_CHECK_MSG(g_world == nullptr, "one World at a time");
  g_world = this;
  let_go_of_unused_code();
  network_ = std::make_unique<Network>(options_.cluster);
  if (options_.keep_link_load) {
    for (Link& link : network_->links()) link.load.keep();
  }
  impl_ = std::make_unique<Impl>(*this);
  fabric_ =
      options_.fabric == FabricKind::kFluid ? make_fluid_fabric(*this, *network_) : make_chunk_fabric(*this, *network_);
}

World::~World() {
  g_world = nullptr;
  // Threads that were blocked at the end still stand on their stacks: they and the clock live as long as the process.
  static_cast<void>(impl_.release());
}

World& World::get() {
  MESHBED_CHECK(g_world != nullptr);
  return *g_world;
}

bool World::exists() { return g_world != nullptr; }

void World::at(Picoseconds when, int host, EventFunction function, void* self, std::uint64_t argument) {
  MESHBED_CHECK_MSG(when >= now_ps_, "an event in the past");
  impl_->queue.push({when, host, function, self, argument});
  impl_->clock.event_added(when);
}

void World::look_again(Picoseconds when, Picoseconds period, int host, EventFunction function, void* self,
                       std::uint64_t argument) {
  MESHBED_CHECK_MSG(when >= now_ps_ && period >= 0, "a look in the past");
  impl_->looks.push({when, host, function, self, argument}, period);
  impl_->clock.event_added(when);
}

std::uint64_t World::happened() const { return events_run_ - impl_->looks_run + turns(); }

Process& World::add_process(int rank, int node, std::string name) {
  MESHBED_CHECK(node >= 0 && static_cast<std::size_t>(node) < options_.cluster.nodes.size());
  auto process = std::make_unique<Process>();
  process->index = static_cast<int>(processes_.size());
  process->rank = rank;
  process->node = node;
  process->name = std::move(name);
  return *processes_.emplace_back(std::move(process));
}

Thread& World::spawn(Process& process, std::string name, std::function<void()> body, bool daemon) {
  auto& thread = *impl_->threads.emplace_back(new Thread);
  thread.process_ = &process;
  thread.name_ = std::move(name);
  thread.id_ = static_cast<int>(impl_->threads.size());
  thread.daemon_ = daemon;
  thread.ended_ = true;  // until it has something to stand on: where none is to be had it counts nowhere
  thread.actor_ = std::make_unique<Thread::Actor>();
  thread.actor_->start(thread, [this, &thread, body = std::move(body)] {
    body();
    thread.ended_ = true;
    impl_->live -= thread.daemon_ ? 0 : 1;
    --impl_->runnable;
    for (Thread* joiner : std::exchange(thread.joiners_, {})) wake(*joiner);
    signal(*thread.process_);
  });
  return thread;
}

void World::Impl::begins(const World& world, Thread& thread) {
  thread.ended_ = false;
  // A thread that runs on in the instant in which its node was killed may start others; these are not waited for
  // either.
  thread.daemon_ = thread.daemon_ || world.killed(thread.process_->node);
  live += thread.daemon_ ? 0 : 1;
  ++runnable;
}

Process* World::current_process() {
  const Thread* thread = current();
  return thread != nullptr ? thread->process_ : nullptr;
}

void World::block(const WaitNote& note) {
  Thread& thread = *current();
  if (std::exchange(thread.wake_pending_, false)) return;
  thread.note_ = note;
  thread.blocked_since_ps_ = now_ps_;
  thread.timed_out_ = false;
  thread.blocked_ = true;
  --impl_->runnable;
  thread.actor_->suspend();  // resume() has cleared blocked_ and counted the thread as runnable again
  MESHBED_CHECK(!thread.blocked_);
}

bool World::block_until(Picoseconds deadline, const WaitNote& note) {
  Thread& thread = *current();
  if (std::exchange(thread.wake_pending_, false)) return true;
  if (deadline <= now_ps_) return false;
  thread.deadline_ps_ = deadline;
  // One timer event a thread: a queued one that is due earlier re-arms itself for the deadline of that moment.
  if (thread.timer_ps_ < 0 || thread.timer_ps_ > deadline) {
    thread.timer_ps_ = deadline;
    at(deadline, thread.process_->node, &World::timer_due, &thread, static_cast<std::uint64_t>(deadline));
  }
  block(note);
  thread.deadline_ps_ = -1;
  return !thread.timed_out_;
}

void World::timer_due(void* self, std::uint64_t argument) {
  Thread& thread = *static_cast<Thread*>(self);
  if (thread.timer_ps_ != static_cast<Picoseconds>(argument)) return;  // superseded by an earlier one
  thread.timer_ps_ = -1;
  if (!thread.blocked_ || thread.deadline_ps_ < 0) return;
  World& world = get();
  if (thread.deadline_ps_ > world.now_ps_) {
    thread.timer_ps_ = thread.deadline_ps_;
    world.at(thread.timer_ps_, thread.process_->node, &World::timer_due, &thread,
             static_cast<std::uint64_t>(thread.timer_ps_));
    return;
  }
  thread.timed_out_ = true;
  world.resume(thread);
}

void World::resume(Thread& thread) {
  if (stopped(thread.process_->node)) {
    if (!std::exchange(thread.held_, true)) impl_->held_threads.push_back(&thread);
    return;
  }
  thread.blocked_ = false;
  ++impl_->runnable;
  if (impl_->in_maestro) {
    thread.actor_->resume(thread);
  } else {
    impl_->woken.push_back(&thread);
  }
}

void World::wake(Thread& thread) {
  if (thread.ended_) return;
  if (!thread.blocked_) {
    thread.wake_pending_ = true;
    return;
  }
  resume(thread);
}

void World::sleep(Picoseconds duration) {
  const Picoseconds end = now_ps_ + std::max<Picoseconds>(duration, 0);
  if (end == now_ps_) {
    yield();
    return;
  }
  while (block_until(end, {.what = "sleep"})) continue;  // a stray wake does not shorten a sleep
}

void World::spend(Picoseconds duration) {
  if (duration <= 0) return;
  Thread& thread = *current();
  thread.process_->spent_ps += duration;
  const Picoseconds end = now_ps_ + duration;
  bool woken = false;
  while (block_until(end, {.what = "work"})) woken = true;
  if (woken) thread.wake_pending_ = true;
}

void World::yield() { current()->actor_->yield(); }

void Thread::join() {
  World& world = World::get();
  while (!ended_) {
    joiners_.push_back(World::current());
    world.block({.what = "pthread_join", .object = static_cast<std::uint64_t>(id_)});
    std::erase(joiners_, World::current());
  }
}

bool World::spin(const Polled& what, const WaitNote& note) {
  Thread& thread = *current();
  Process& process = *thread.process_;
  if (thread.spin_epoch_ != process.epoch || thread.spin_activity_ != thread.activity_) {
    // Something happened since the last empty look: begin a new circle here.
    if (thread.spin_activity_ != thread.activity_) thread.spin_pause_ps_ = 0;
    thread.spin_epoch_ = process.epoch;
    thread.spin_activity_ = thread.activity_;
    thread.circle_.assign(1, what);
    thread.circle_repeats_ = 0;
    return false;
  }
  const bool back_at_first = thread.circle_.front() == what;
  if (!back_at_first && std::find(thread.circle_.begin(), thread.circle_.end(), what) == thread.circle_.end()) {
    thread.circle_.push_back(what);
    return false;
  }
  // A program may look at one thing twice before the next (then the circle before was larger), and may never look at
  // the first again (then the others have been round twice).
  const std::size_t expected = std::max(thread.circle_.size(), thread.circle_before_);
  const bool closed = back_at_first && thread.circle_.size() == expected;
  if (!closed && ++thread.circle_repeats_ < 2 * expected) return false;
  thread.circle_before_ = thread.circle_.size();
  // The circle is closed: everything was looked at, and nothing is there.
  thread.spin_pause_ps_ = std::clamp(2 * thread.spin_pause_ps_, kSpinPauseMin, kSpinPauseMax);
  process.spinning.push_back(&thread);
  const bool woken = block_until(now_ps_ + thread.spin_pause_ps_, note);
  std::erase(process.spinning, &thread);
  if (!woken) ++thread.spin_epoch_;  // look at everything once more before the next pause
  return true;
}

void World::note_activity() {
  if (Thread* thread = current()) ++thread->activity_;
}

void World::signal(Process& process) {
  ++process.epoch;
  if (process.spinning.empty()) return;
  for (Thread* thread : process.spinning) {
    if (thread->blocked_) resume(*thread);
  }
  process.spinning.clear();
}

std::vector<std::string> World::Impl::waiters(const World& world) const {
  std::vector<std::string> lines;
  for (const auto& thread : threads) {
    if (thread->ended_) continue;  // daemons too: a library's own threads are where a hang shows
    const WaitNote& note = thread->note_;
    std::string line = thread->process_->name + " thread " + thread->name_ + ": ";
    if (world.stopped(thread->process_->node)) {
      line += "its node stands still";
    } else if (!thread->blocked_) {
      line += "running";
    } else {
      line += std::string("waits in ") + note.what;
      if (note.describe != nullptr) line += " for " + note.describe(note.object);
      line += " since " + std::to_string(thread->blocked_since_ps_ / kPicosecondsPerNanosecond) + " ns";
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

Outcome World::run() { return impl_->clock.run(); }

}  // namespace meshbed::sim

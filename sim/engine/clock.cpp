#include "sim/engine/clock.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "plugin/base/check.h"
#include "sim/engine/world_impl.h"

namespace meshbed::sim {
namespace {

namespace s4u = simgrid::s4u;

constexpr Picoseconds kNever = std::numeric_limits<Picoseconds>::max();
// Where nothing but looks is due for so long, they are left out as well. Not earlier: a kernel may look for no other
// reason than to measure how long a look takes.
constexpr Picoseconds kAlone = kPicosecondsPerSecond;

// Leaves Engine::run() from maestro, so that blocked threads are left alone rather than killed by an exception.
struct Stop {};

double to_seconds(Picoseconds time) { return static_cast<double>(time) * 1e-12; }
Picoseconds simgrid_now() { return std::llround(s4u::Engine::get_clock() * 1e12); }

/// Guard pages cost two kernel mappings a stack, and a process has 65 530: they are left off where there are many.
bool has_guards(const WorldOptions& options) { return options.cluster.nodes.size() <= 2048; }

/// SimGrid's options, as it would take them on a command line.
std::vector<std::string> configuration(const WorldOptions& options) {
  std::vector<std::string> arguments = {
      "meshbed",
      // CM02 with bandwidth only: latency is a timer above the fabric, for SimGrid weights shares by it. Without
      // cross-traffic and window limits a lone flow takes exactly its bytes over its rate.
      "--cfg=network/model:CM02",
      "--cfg=network/crosstraffic:0",
      "--cfg=network/TCP-gamma:0",
      "--cfg=surf/precision:1e-12",
      "--cfg=contexts/nthreads:1",
      "--cfg=contexts/stack-size:" + std::to_string(std::max(options.stack_bytes / 1024U, 16U)),
      // In pages; as StackPool has it.
      "--cfg=contexts/guard-size:" + std::to_string(has_guards(options) ? guard_bytes(options.stack_bytes) / 4096 : 0),
      // Its INFO lines would stand between a user and the report.
      "--log=root.thres:warning",
      // Nor would its remark, at every normal exit, that the process ends.
      "--log=ker_engine.thres:error",
  };
  if (!options.contexts.empty()) arguments.push_back("--cfg=contexts/factory:" + options.contexts);
  return arguments;
}

/// Stands around everything that maestro does for the World.
class MaestroVisit {
 public:
  explicit MaestroVisit(World& world) : impl_(World::Impl::of(world)) {
    SimgridCall::running = nullptr;
    impl_.in_maestro = true;
  }
  ~MaestroVisit() { impl_.in_maestro = false; }
  MaestroVisit(const MaestroVisit&) = delete;
  MaestroVisit& operator=(const MaestroVisit&) = delete;

 private:
  World::Impl& impl_;
};

}  // namespace

// --- what comes next ---

Picoseconds World::Impl::next_ps(bool can_put_off) {
  if (looks.empty()) return queue.next_ps();
  const Picoseconds other = queue.empty() ? kNever : queue.next_ps();
  if (can_put_off && !queue.empty()) {
    looks.put_off_until(other);
  } else if (can_put_off && looks.next_ps() - last_event_ps > kAlone) {
    looks.put_off_until(kNever, Looks::kMostLeftOutAlone);
  }
  return std::min(other, looks.next_ps());
}

Event World::Impl::pop() {
  if (looks.empty() || (!queue.empty() && queue.next_ps() <= looks.next_ps())) {
    const Event event = queue.pop();
    last_event_ps = event.when_ps;
    return event;
  }
  ++looks_run;
  return looks.pop();
}

// --- what a thread runs on ---

World::Impl::Impl(World& world) : clock(world) {
  const WorldOptions& options = world.options();
  if (!kFibers || options.fabric == FabricKind::kFluid || !options.contexts.empty()) return;
  fibers = std::make_unique<FiberRounds>(
      StackPool::Options{.stack_bytes = options.stack_bytes, .guarded = has_guards(options)});
}

void FiberRounds::run_round() {
  round.swap(next);
  for (std::size_t index = 0; index < round.size(); ++index) {
    if (index + 1 < round.size()) World::Impl::fiber_of(*round[index + 1])->expect();
    Thread& thread = *round[index];
    std::unique_ptr<Fiber>& fiber = World::Impl::fiber_of(thread);
    SimgridCall::running = &thread;
    ++SimgridCall::turns;
    SimgridCall::begin_turn();
    fiber->enter();
    if (fiber->ended()) fiber.reset();
  }
  SimgridCall::running = nullptr;
  SimgridCall::begin_turn();
  round.clear();
}

void Thread::Actor::start(Thread& thread, std::function<void()> body) {
  World& world = World::get();
  if (const auto& fibers = World::Impl::of(world).fibers) {
    // SimGrid makes an actor in two calls, after each of which the others have their turn; so it is the same run.
    Thread* starter = World::current();
    if (starter != nullptr) starter->actor_->yield();
    fiber = std::make_unique<Fiber>(fibers->stacks, std::move(body));
    World::Impl::of(world).begins(world, thread);
    fibers->join(thread);
    if (starter != nullptr) starter->actor_->yield();
    return;
  }
  const SimgridCall call;
  actor = s4u::Actor::init(thread.name_, s4u::Host::by_name("meshbed"));
  World::Impl::of(world).begins(world, thread);
  actor->start([&thread, body = std::move(body)] {
    SimgridCall::running = &thread;
    SimgridCall::begin_turn();
    body();
  });
}

void Thread::Actor::suspend() {
  if (fiber != nullptr) return fiber->leave();
  const SimgridCall call;
  s4u::this_actor::suspend();
}

void Thread::Actor::resume(Thread& thread) {
  if (fiber != nullptr) return World::Impl::of(World::get()).fibers->join(thread);
  const SimgridCall call;
  actor->resume();
}

void Thread::Actor::yield() {
  if (fiber != nullptr) {
    World::Impl::of(World::get()).fibers->join(*World::current());
    return fiber->leave();
  }
  const SimgridCall call;
  s4u::this_actor::yield();
}

Thread* World::current() { return SimgridCall::running; }
std::uint64_t World::turns() { return SimgridCall::turns; }
void World::set_turn_hook(void (*hook)(Thread*)) { SimgridCall::turn_hook = hook; }

// --- the clock ---

struct Clock::State {
  explicit State(World& owner) : world(owner) {}

  World& world;
  std::unique_ptr<s4u::Engine> engine;
  s4u::Link* door = nullptr;  // into maestro, see enter_maestro
  s4u::SemaphorePtr bell;     // rung when an event is queued before the time for which the pacer sleeps
  bool fluid = false;
  bool sleeping = false;
  bool rung = false;
  bool stopping = false;
  Picoseconds armed_ps = kNever;  // when the sleeping pacer wakes
  int activities = 0;
  Outcome outcome;

  void pace();
  void pace_fibers();
  void run_due_events();
  void run_events_until_wake();
  void resume_woken();
  void on_time_advance();
  void on_door();
  void enter_maestro();
  void sleep_until(Picoseconds when);
  bool over();
  /// Flows end when they end: while one is under way no look is left out.
  Picoseconds next_event_ps() { return World::Impl::of(world).next_ps(activities == 0); }
};

Clock::Clock(World& world) : state_(std::make_unique<State>(world)) {
  std::vector<std::string> words = configuration(world.options());
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  // SimGrid would use SIGINT to print its own state; the command decides what ends a run.
  struct sigaction interrupt {};
  sigaction(SIGINT, nullptr, &interrupt);
  state_->engine = std::make_unique<s4u::Engine>(&count, arguments.data());
  sigaction(SIGINT, &interrupt, nullptr);
  state_->fluid = world.options().fabric == FabricKind::kFluid;
  auto* root = s4u::create_full_zone("world");
  root->create_host("meshbed", 1e9);
  state_->door = root->create_link("door", 1.0);
}

Clock::~Clock() = default;

void Clock::event_added(Picoseconds when) {
  State& state = *state_;
  if (!state.sleeping || when >= state.armed_ps || state.rung) return;
  state.rung = true;
  const SimgridCall call;
  state.bell->release();
}

void Clock::activity(int change) { state_->activities += change; }

void Clock::State::run_due_events() {
  auto& impl = World::Impl::of(world);
  while (!impl.nothing_due() && next_event_ps() <= world.now()) World::Impl::run_event(world, impl.pop());
}

/// In maestro, where time is the World's own: on to the next event's time, and the next, until a thread can run.
void Clock::State::run_events_until_wake() {
  auto& impl = World::Impl::of(world);
  do {
    World::Impl::set_now(world, next_event_ps());
    run_due_events();
  } while (impl.runnable == 0 && !over());
}

void Clock::State::resume_woken() {
  auto& woken = World::Impl::of(world).woken;
  for (Thread* thread : woken) World::Impl::resume_actor(*thread);
  woken.clear();
}

void Clock::State::on_time_advance() {
  if (stopping) throw Stop{};
  const MaestroVisit visit(world);
  Picoseconds now = simgrid_now();
  // Doubles cannot represent every picosecond; within rounding, the queue's own time counts.
  if (sleeping && std::llabs(now - armed_ps) <= 1) now = armed_ps;
  if (now > world.now()) World::Impl::set_now(world, now);
  if (sleeping && now >= armed_ps) armed_ps = now;  // its sleep is over: no event can be too early for it
  run_due_events();
}

void Clock::State::on_door() {
  const MaestroVisit visit(world);
  resume_woken();
  if (!fluid && World::Impl::of(world).runnable == 0) run_events_until_wake();
}

/// To on_door(). A change of a link's bandwidth is the cheapest call of SimGrid's API whose signal is emitted in
/// maestro (measured: 150 ns, against 800 ns for a sleep); this link carries nothing.
void Clock::State::enter_maestro() {
  const SimgridCall call;
  door->set_bandwidth(1.0);
}

void Clock::State::sleep_until(Picoseconds when) {
  armed_ps = when;
  rung = false;
  sleeping = true;
  const double duration = when == kNever ? -1.0 : to_seconds(when) - s4u::Engine::get_clock();
  const SimgridCall call;
  if (when == kNever) {
    bell->acquire();
  } else if (duration > 0) {
    static_cast<void>(bell->acquire_timeout(duration));
  }
  while (!bell->would_block()) bell->acquire();
  sleeping = false;
  if (when != kNever && !rung && world.now() < when) {
    // The step was below SimGrid's precision: time did not advance there, but it does here.
    World::Impl::set_now(world, when);
    run_due_events();
  }
}

bool Clock::State::over() {
  const auto& impl = World::Impl::of(world);
  const auto& options = world.options();
  const auto end = [&](OutcomeKind kind) {
    outcome.kind = kind;
    if (kind != OutcomeKind::kFinished) outcome.waiters = impl.waiters(world);
    return true;
  };
  if (impl.live == 0) return end(OutcomeKind::kFinished);
  if (impl.nothing_due()) return activities == 0 && end(OutcomeKind::kDeadlock);
  const Picoseconds next = next_event_ps();
  if (options.time_limit_ps > 0 && next > options.time_limit_ps) return end(OutcomeKind::kTimeLimit);
  return next - World::Impl::last_progress(world) > options.stall_limit_ps && end(OutcomeKind::kStall);
}

/// Without SimGrid: neither threads nor time are its.
void Clock::State::pace_fibers() {
  auto& impl = World::Impl::of(world);
  for (;;) {
    while (impl.runnable > 0) {
      impl.fibers->run_round();
      resume_woken();
    }
    if (over()) return;
    const MaestroVisit visit(world);
    run_events_until_wake();
  }
}

void Clock::State::pace() {
  auto& impl = World::Impl::of(world);
  SimgridCall::running = nullptr;
  for (;;) {
    while (impl.runnable > 0) {
      if (!impl.woken.empty()) {
        enter_maestro();
      } else {
        const SimgridCall call;
        s4u::this_actor::yield();
      }
    }
    if (over()) break;
    const Picoseconds next = impl.nothing_due() ? kNever : next_event_ps();
    if (!fluid) {
      enter_maestro();
    } else if (next <= world.now()) {
      run_due_events();
    } else {
      sleep_until(next);
    }
  }
  stopping = true;
  // A step of simulated time: SimGrid's loop meets on_time_advance(), which ends it, outside of any actor.
  s4u::this_actor::sleep_for(1e-9);
}

Outcome Clock::run() {
  State& state = *state_;
  if (World::Impl::of(state.world).fibers != nullptr) {
    state.pace_fibers();
    return state.outcome;
  }
  state.engine->get_netzone_root()->seal();
  state.bell = s4u::Semaphore::create(0);
  s4u::Engine::on_time_advance_cb([&state](double) { state.on_time_advance(); });
  s4u::Link::on_bandwidth_change_cb([&state](const s4u::Link& link) {
    if (&link == state.door) state.on_door();
  });
  s4u::Actor::create("pacer", s4u::Host::by_name("meshbed"), [&state] { state.pace(); });
  try {
    state.engine->run();
    MESHBED_CHECK_MSG(false, "SimGrid ended the run by itself");
  } catch (const Stop&) {
    return state.outcome;
  }
  return state.outcome;
}

}  // namespace meshbed::sim

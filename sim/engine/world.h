#pragma once
// World: virtual time, simulated processes (one a rank) and their threads. The only room that knows SimGrid.
//
// Owned by the caller that runs a simulation (cli/, a test); one World at a time in a process. Everything below runs on
// one operating-system thread, except under SimGrid's "thread" context factory, where exactly one runs at a time.
//
// Time is integer picoseconds. All that happens later is an Event in one queue, ordered by (time, host, sequence) -
// strictly, checked on push and on pop. Events run outside any simulated thread and must not block; they change state
// and wake threads. Between two events every runnable thread runs until it blocks.
//
// A simulated thread blocks only through block(), block_until() and spin(). Never put `catch (...)` or `noexcept`
// around them: SimGrid ends a thread by an exception that must pass through (where threads are its actors).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "models/cluster.h"
#include "plugin/base/units.h"
#include "sim/engine/timeline.h"

namespace meshbed::sim {

class Thread;
class Fabric;
class Network;

/// What a blocked thread waits for; printed when nothing can ever wake it. `what` is a string literal ("ibv_poll_cq",
/// "recv", "pthread_cond_wait"); the numbers and the describe function add what only the waiter knows (QP, fd, peer).
struct WaitNote {
  const char* what = "";
  std::uint64_t object = 0;
  std::string (*describe)(std::uint64_t object) = nullptr;
};

/// A thing that a program polls: of this kind the one with this number. Not its address: whether a new thing has that
/// of one that went depends on the state of the heap, and with it when the program looks again.
struct Polled {
  const char* kind = "";  // a string literal
  std::uint64_t number = 0;
  bool operator==(const Polled& other) const { return number == other.number && std::string_view(kind) == other.kind; }
};

/// One simulated process: a rank, or a tool without a rank (rank = -1). Lives as long as its World.
struct Process {
  int index = 0;  // position in World::processes()
  int rank = -1;
  int node = 0;  // index in the cluster
  std::string name;
  std::map<std::string, std::string> environment;
  std::uint64_t epoch = 0;            // counts what happened to this process from outside: see signal()
  std::vector<Thread*> spinning;      // its threads blocked in spin()
  Picoseconds spent_ps = 0;           // by its threads, in spend()
  std::shared_ptr<void> host_state;   // sim/host keeps its descriptors, threads and mutexes here
  std::shared_ptr<void> verbs_state;  // sim/verbs keeps its devices and objects here
};

enum class FabricKind { kFluid, kChunk };

struct WorldOptions {
  models::Cluster cluster;
  FabricKind fabric = FabricKind::kChunk;
  std::uint64_t seed = 1;
  Picoseconds time_limit_ps = 0;                             // 0: none. Past it the run ends in Outcome::kTimeLimit
  Picoseconds stall_limit_ps = 600 * kPicosecondsPerSecond;  // simulated time in which threads spin and nothing happens
  std::uint32_t stack_bytes = 256 * 1024;                    // of each simulated thread
  // What threads run on: "raw", "ucontext", "boost", "thread" are SimGrid's context factories; empty: fibers of our own
  // where the fabric does without SimGrid's time (fiber.h), else SimGrid's default.
  std::string contexts = {};
  bool keep_link_load = false;  // Link::load
};

enum class OutcomeKind { kFinished, kDeadlock, kStall, kTimeLimit };

/// How a simulation ended. For a deadlock or stall: one line per thread that waits, with what it waits for.
struct Outcome {
  OutcomeKind kind = OutcomeKind::kFinished;
  std::vector<std::string> waiters;
};

class World final : public Timeline {
 public:
  explicit World(WorldOptions options);
  ~World() override;

  /// The one World; must exist.
  static World& get();
  static bool exists();

  // --- time and events ---
  void at(Picoseconds when, int host, EventFunction function, void* self, std::uint64_t argument) override;
  /// As at(), for a look at memory which found nothing the time before: where nothing else happens until then it comes
  /// whole periods later, as looks in between would find nothing either (looks.h). Period 0: it comes at `when`.
  void look_again(Picoseconds when, Picoseconds period, int host, EventFunction function, void* self,
                  std::uint64_t argument);
  /// Reports progress to the stall watchdog (bytes moved, a completion, a connection).
  void progress() { last_progress_ps_ = now_ps_; }

  // --- processes and threads ---
  Process& add_process(int rank, int node, std::string name);
  const std::vector<std::unique_ptr<Process>>& processes() const { return processes_; }
  /// Starts a thread of `process`; it runs at the current time. A daemon does not keep the simulation alive. Throws
  /// std::system_error where there is no memory for its stack; nothing has begun then.
  Thread& spawn(Process& process, std::string name, std::function<void()> body, bool daemon = false);
  /// The thread that is running, or nullptr (events, main, before run()).
  static Thread* current();
  /// The process that is running, or nullptr.
  static Process* current_process();
  /// Grows whenever a thread gets its turn: equal before and after, the running thread has not waited. Safe in a signal
  /// handler.
  static std::uint64_t turns();
  /// Called before a thread's turn begins, with the thread, and with nullptr when the World itself goes on.
  static void set_turn_hook(void (*hook)(Thread* running));

  /// Blocks the current thread until wake(). Consumes one wake that came before it (a wake is never lost).
  void block(const WaitNote& note);
  /// As block(), but no longer than until `deadline`; false where the deadline came first.
  bool block_until(Picoseconds deadline, const WaitNote& note);
  /// Makes a blocked thread runnable at the current time; remembered where it is not blocked yet. The thread runs only
  /// after the caller has blocked, or its event has ended.
  void wake(Thread& thread);
  void sleep(Picoseconds duration);  // of the current thread
  /// The current thread works for so long: virtual time that software or a GPU costs. 0 costs nothing, not even an
  /// event. A wake that comes meanwhile is kept.
  void spend(Picoseconds duration);
  void yield();  // lets all other runnable threads run first, at the same time

  // --- polling loops ---
  /// Called where a program polls `what` and found nothing (empty ibv_poll_cq, EAGAIN, sched_yield). The first empty
  /// look at it since anything happened returns at once, so that the program may look at its other things; the second
  /// one blocks until something happens to the process (or a capped back-off passes). False where it has not blocked:
  /// nothing has changed. True: the caller must look at it again, now.
  bool spin(const Polled& what, const WaitNote& note);
  /// For things without a number of their own: one that nothing else in this world has.
  std::uint64_t new_number() { return ++numbers_; }
  /// The current thread got something done (a successful post, poll, read ...): its polling starts anew.
  void note_activity();
  /// Something happened to `process` from outside of the current thread: bytes, a completion, a signal, an unlock.
  void signal(Process& process);

  // --- nodes that stop ---
  /// From now on nothing happens on the node: its threads stand still, and so does every event that belongs to it,
  /// until continue_node(); then all that was held up happens at once, in its order, and time has gone on meanwhile (a
  /// suspended machine whose clock goes on). Nothing where it stands still already. From events only.
  void stop_node(int node);
  void continue_node(int node);
  /// As stop_node(), for good: the run does not wait for the node's threads.
  void kill_node(int node);
  bool stopped(int node) const { return !stopped_.empty() && stopped_[static_cast<std::size_t>(node)] != Stop::kNo; }
  void never_hold(EventFunction function) override { never_held_.push_back(function); }

  // --- run ---
  /// Runs until every non-daemon thread has ended, or nothing can happen any more.
  Outcome run();

  const models::Cluster& cluster() const { return options_.cluster; }
  const models::Node& node_at(int node) const { return options_.cluster.at(node); }
  /// For faults: a NIC may change during the run. The caller notifies the parts that depend on it.
  models::Nic& change_nic(models::PortRef port) { return options_.cluster.nic_of(port); }
  const WorldOptions& options() const { return options_; }
  Network& network() { return *network_; }
  Fabric& fabric() { return *fabric_; }
  std::uint64_t events_run() const { return events_run_; }
  /// Grows with each event that is no look_again(), and each thread's turn.
  std::uint64_t happened() const;

  struct Impl;  // sim/engine's own

 private:
  std::uint64_t numbers_ = 0;
  static void timer_due(void* self, std::uint64_t argument);
  void resume(Thread& thread);
  enum class Stop : std::uint8_t { kNo, kStopped, kKilled };
  void stop(int node, Stop how);
  bool killed(int node) const { return stopped(node) && stopped_[static_cast<std::size_t>(node)] == Stop::kKilled; }
  Picoseconds last_progress_ps_ = 0;
  std::uint64_t events_run_ = 0;
  std::vector<Stop> stopped_;  // by node; empty until the first stop
  std::vector<EventFunction> never_held_;
  WorldOptions options_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<Fabric> fabric_;
  std::unique_ptr<Impl> impl_;
};

/// A simulated operating-system thread (a fiber, or a SimGrid actor). Owned by the World; stays valid after it ended.
class Thread {
 public:
  ~Thread();
  Process& process() const { return *process_; }
  const std::string& name() const { return name_; }
  int id() const { return id_; }  // unique in the World, from 1
  bool ended() const { return ended_; }
  /// Counts what the thread got done, see World::note_activity: equal before and after, it has only looked.
  std::uint64_t activity() const { return activity_; }
  /// Blocks the current thread until this one has ended.
  void join();

 private:
  friend class World;
  struct Actor;  // what it runs on
  Thread();

  Process* process_ = nullptr;
  std::string name_;
  int id_ = 0;
  bool daemon_ = false;
  bool ended_ = false;
  bool blocked_ = false;
  bool wake_pending_ = false;
  bool timed_out_ = false;
  bool held_ = false;  // woken while its node stands still
  Picoseconds blocked_since_ps_ = 0;
  Picoseconds deadline_ps_ = -1;    // of the current block_until; -1: none
  Picoseconds timer_ps_ = -1;       // when the thread's timer event is due; -1: none is queued
  std::uint64_t activity_ = 0;      // counts what the thread got done: see World::spin
  std::vector<Polled> circle_;      // what was found empty since anything happened, in order: see World::spin
  std::size_t circle_before_ = 0;   // size of the circle before
  std::size_t circle_repeats_ = 0;  // looks at things that are in the circle already
  std::uint64_t spin_epoch_ = ~0ULL, spin_activity_ = 0;
  Picoseconds spin_pause_ps_ = 0;
  std::vector<Thread*> joiners_;
  WaitNote note_;
  std::unique_ptr<Actor> actor_;
};

}  // namespace meshbed::sim

#pragma once
// RingRank: one rank's megakernel in virtual time: its lanes, the buffers that it shares with its host, and the proxy
// that carries its messages. Three threads of the rank, which run one at a time:
//
//   kernel   steps the lanes, each at its own time                       kernel.cpp
//   proxy    sends what was signalled, receives, raises flags            proxy.cpp
//   host     publishes slots, looks whether anything gets done           the workload's
//
// They wait for each other by RankHost::doze. The kernel's thread also does at its time what takes a while to be seen
// on the other side (a doorbell, a flag).

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cli/scenario/scenario.h"
#include "cli/workload/megakernel/trace.h"
#include "cli/workload/rank_host.h"
#include "plugin/coll/plan/slots.h"
#include "plugin/coll/run/reduce.h"
#include "plugin/coll/transport/transport.h"
#include "plugin/ring/abi/abi.h"
#include "plugin/ring/kernel/step.h"

namespace meshbed::cli {

/// Of the rings that a run makes.
inline constexpr const ring::Layout& kRingLayout = ring::kLayout2026_05;

/// A user's opcode of queues: [end, nanoseconds, times]: takes that long, comes so often to that end, then is done.
inline constexpr ring::Word kTaskOpcode = ring::opcode::kUserFirst;

/// The buffers of one ring, as its host encodes them (layout 2026-05).
struct RingBuffers {
  RingBuffers(const Megakernel& settings, ring::Word slots, ring::Word lanes, const ring::MeshBoard& board);
  std::vector<ring::Word> control, slots, debug, io;
  ring::Kernel kernel;
};

/// The memories that slots name; empty where a program has none of them.
using RingSpaces = std::array<std::vector<std::byte>, coll::kSpaces>;

class RingProxy;

class RingKernel {
 public:
  struct Setting {
    RankHost& host;
    const Megakernel& settings;
    const ring::Kernel& kernel;
    const coll::SlotProgram& program;
    RingSpaces& spaces;
    coll::DataType type;
    coll::ReduceOp op;
    RingTrace& trace;
  };
  explicit RingKernel(const Setting& setting);
  RingKernel(const RingKernel&) = delete;
  RingKernel& operator=(const RingKernel&) = delete;

  /// The kernel's thread: from the launch until stop().
  void run();

  // For the other threads of the rank.
  void use(RingProxy& proxy) { proxy_ = &proxy; }
  /// Slots were published, or something else has changed that a lane may look at.
  void nudge() { setting_.host.nudge(this); }
  /// At that time, by this thread.
  void at(Picoseconds when_ps, std::function<void()> act);
  /// A message is there: this connection's flag goes up by one, once the proxy's write of it is seen.
  void see_arrival(ring::Word connection);
  /// SHUTDOWN.
  void stop();
  /// What is nudged whenever a slot has ended; the host's thread dozes on it.
  const void* ended() const { return &ended_; }
  void nudge_host() { setting_.host.nudge(ended()); }
  std::uint64_t slots_ended() const { return ended_; }
  /// Something of it is under way whose end has its time: an operation that a lane is at, a doorbell, a flag.
  bool works() const;
  const std::vector<ring::KernelLane>& lanes() const { return lanes_; }
  void forget_task(ring::Word slot) { tasks_[slot] = 0; }

 private:
  /// What MeshOperations asks of us.
  struct Port {
    RingKernel* kernel;
    bool put(ring::Word connection, ring::Word space, ring::Word offset, ring::Word bytes, ring::Word message);
    void signal(ring::Word connection, ring::Word puts);
    ring::Word completed(ring::Word connection) const;
    void reduce(const ring::Word* args);
    void copy(const ring::Word* args);
  };
  struct User {
    RingKernel* kernel;
    ring::End operator()(const ring::Operation& op) const;
  };
  struct LaneClock {
    Picoseconds free_ps = 0;
    bool paid = false;  // for the operation that it has claimed
  };

  /// True where it got anything done.
  bool advance(std::size_t lane);
  bool run_lane(ring::KernelLane& lane, LaneClock& clock);
  bool act_on_time();
  Picoseconds next_time() const;
  Picoseconds cost_of(ring::Word op, const ring::Word* args) const;
  void note(const ring::KernelLane& lane, RingEventKind kind);
  char* bytes_at(ring::Word space, ring::Word offset);

  Setting setting_;
  Port port_;
  ring::MeshOperations<ring::PlainWords, Port> mesh_;
  coll::ReduceKernels kernels_;
  RingProxy* proxy_ = nullptr;
  std::vector<ring::KernelLane> lanes_;
  std::vector<LaneClock> clocks_;
  std::vector<ring::Word> tasks_;  // by slot: how often the task has come to its first end
  std::map<std::pair<Picoseconds, std::uint64_t>, std::function<void()>>
      timers_;  // by time, then as they were asked for
  std::uint64_t timer_count_ = 0;
  std::uint64_t ended_ = 0;
  std::optional<std::uint64_t> stop_after_;  // slots: from then on no lane does anything
  bool stopping_ = false;
};

/// Carries messages between this rank's slots and the net plugin.
class RingProxy {
 public:
  RingProxy(RankHost& host, coll::NetTable& net, const coll::SlotProgram& program, RingSpaces& spaces,
            RingKernel& kernel);

  /// Listens, connects and registers: every rank calls it.
  Result<void> connect();
  Result<void> close();

  /// The proxy's thread: until stop().
  void run();
  void stop();
  /// Once a program begins again, its landings are open for as many messages more.
  void begin_epoch();
  /// Why it has ended, where nobody stopped it.
  const std::optional<Error>& failure() const { return failure_; }

  // The kernel's.
  struct Put {
    void* data;
    std::uint64_t size_bytes;
    ring::Word space;
  };
  void put(ring::Word connection, const Put& put) { sends_[connection].puts.push_back(put); }
  void commit(ring::Word connection, ring::Word puts);
  ring::Word completed(ring::Word connection) const { return sends_[connection].completed; }

 private:
  struct End {
    void* comm = nullptr;
    void* listener = nullptr;
    std::array<void*, coll::kSpaces> memory{};
  };
  struct Send : End {
    std::deque<Put> puts;  // not posted yet
    std::deque<void*> requests;
    ring::Word committed = 0, posted = 0, completed = 0;
  };
  struct Receive : End {
    std::deque<void*> requests;
    std::uint64_t open = 0, posted = 0, arrived = 0;
  };

  Result<bool> pass();
  Result<bool> pass_sends(Send& send);
  Result<bool> pass_receives(ring::Word connection);
  Result<bool> finished(void* request, std::uint64_t* size_bytes);
  Result<void> enlist(End& end);
  Result<void> checked(const char* call, int code, std::uint64_t warns_before) const;
  bool waits_for_net() const;

  RankHost& host_;
  coll::NetTable& net_;
  const coll::SlotProgram& program_;
  RingSpaces& spaces_;
  RingKernel& kernel_;
  std::vector<Send> sends_;
  std::vector<Receive> receives_;
  bool stopping_ = false;
  std::optional<Error> failure_;
};

}  // namespace meshbed::cli

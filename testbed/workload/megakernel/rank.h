#pragma once
// RingRank: one rank's megakernel in virtual time: its lanes, the buffers that it shares with its host, and the proxy
// that carries its messages. Three threads of the rank, which run one at a time:
//
//   kernel   steps the lanes, each at its own time; one a ring           kernel.cpp
//   proxy    sends signalled messages, receives, raises flags; several    proxy.cpp, proxy_queues.cpp
//            share a rank's peers
//   host     publishes slots, checks for progress                        the workload's
//
// A lane is stepped only while it has work to look at. Otherwise it sleeps until the event that it waits for, so that a
// run's cost grows only with its slots.
//
// The threads wait for each other by RankHost::doze. The kernel's thread also applies changes that become visible with
// a delay (a doorbell, a flag) when they are due.

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plugin/coll/plan/slots.h"
#include "plugin/coll/reduce/reduce.h"
#include "plugin/coll/transport/transport.h"
#include "plugin/ring/abi/abi.h"
#include "plugin/ring/kernel/step.h"
#include "testbed/scenario/scenario.h"
#include "testbed/workload/megakernel/claimable.h"
#include "testbed/workload/megakernel/descriptor_queue.h"
#include "testbed/workload/megakernel/message_bytes.h"
#include "testbed/workload/megakernel/parts.h"
#include "testbed/workload/megakernel/trace.h"
#include "testbed/workload/rank_host.h"

namespace meshbed::testbed {

/// The layout of all rings in a run.
inline constexpr const ring::Layout& kRingLayout = ring::kLayout2026_05;

/// A user's opcode of queues: [end, nanoseconds, times]. Takes that time, ends `times` times with `end`, then is done.
inline constexpr ring::Word kTaskOpcode = ring::opcode::kUserFirst;

/// The buffers of one ring, as its host encodes them (layout 2026-05).
struct RingBuffers {
  RingBuffers(const Megakernel& settings, ring::Word slots, ring::Word lanes, const ring::MeshBoard& board);
  std::vector<ring::Word> control, slots, debug, io;
  ring::Kernel kernel;
};

/// The memories that slots name; empty where a program has none of them.
using RingSpaces = std::array<std::vector<std::byte>, coll::kSpaces>;

class RingLandings;
class RingProxy;

/// The owner of a proxy: gives it messages, and is notified of their progress.
class RingProxyUser {
 public:
  virtual ~RingProxyUser() = default;
  virtual void use(RingProxy& proxy) = 0;
  /// The proxy has ended a put of that connection: its bytes may be overwritten.
  virtual void see_completion(ring::Word connection) = 0;
  /// A descriptor queue has room again.
  virtual void see_room() = 0;
  /// At that time.
  virtual void at(Picoseconds when_ps, std::function<void()> act) = 0;
  // In the order of a connection's messages: a receive for one has been posted; it has arrived.
  virtual void posted(ring::Word connection) = 0;
  virtual void arrived(ring::Word connection) = 0;
  /// Only its data, if flags have queue pairs of their own: arrived() then means its flag.
  virtual void landed(ring::Word connection) { (void)connection; }
  /// The parts of a token's time; nullptr: not kept.
  virtual RingParts* parts() const = 0;
};

struct RingLaunch {
  Picoseconds start_ps = 0, end_ps = 0;
};
struct RingCreditWaits {
  std::uint64_t count = 0;
  Picoseconds time_ps = 0;
  std::uint64_t overcommitted_most = 0;  // places reserved beyond those that a queue has
};

class RingKernel final : public RingProxyUser {
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
    int ring = 0;                     // of its rank's
    const void* ended_key = nullptr;  // what the host waits on, which may have several rings; nullptr: this one's own
    RingParts* parts = nullptr;       // the parts of a token's time; nullptr: not kept
    MessageBytes* bytes = nullptr;    // checks each message's; nullptr: not checked
    const std::vector<bool>* begins = nullptr;  // by id: the slot is the first of an operation; nullptr: none is
  };
  explicit RingKernel(const Setting& setting);
  RingKernel(const RingKernel&) = delete;
  RingKernel& operator=(const RingKernel&) = delete;

  /// The kernel's thread: from the launch until stop().
  void run();

  // For the other threads of the rank.
  void use(RingProxy& proxy) override { proxy_ = &proxy; }
  void use(RingLandings& landings) { landings_ = &landings; }
  /// Something that a lane polls may have changed.
  void nudge() { setting_.host.nudge(this); }
  void published(ring::Word slot);
  void see_completion(ring::Word connection) override;
  void see_room() override;
  void posted(ring::Word connection) override;
  void arrived(ring::Word connection) override;
  void landed(ring::Word connection) override;
  /// The host has served an IO request.
  void see_io();
  /// At that time, by this thread.
  void at(Picoseconds when_ps, std::function<void()> act) override;
  /// A message has arrived: this connection's flag is raised by one, once the proxy's write is visible.
  void see_arrival(ring::Word connection);
  /// SHUTDOWN.
  void stop();
  /// Nudged whenever a slot has ended; the host's thread dozes on it.
  const void* ended() const { return setting_.ended_key != nullptr ? setting_.ended_key : &ended_; }
  void nudge_host() { setting_.host.nudge(ended()); }
  std::uint64_t slots_ended() const { return ended_; }
  /// Slots that became DONE since the last call.
  std::vector<ring::Word> take_done() { return std::exchange(done_, {}); }
  /// Whether an event is scheduled: the end of a lane's operation, a doorbell, a flag.
  bool works() const;
  /// Whether its proxy has messages under way.
  bool sends() const;
  /// Whether it was stopped by its scenario: no lane executes any more.
  bool stands_still() const { return stop_after_ && ended_ >= *stop_after_; }
  const std::vector<ring::KernelLane>& lanes() const { return lanes_; }
  /// The host has just written the slot.
  void see_slot(ring::Word slot) {
    tasks_[slot] = 0;
    visible_ps_[slot] = setting_.host.now_ps() + setting_.settings.visibility_ps;
  }
  const Megakernel& settings() const { return setting_.settings; }
  RingParts* parts() const override { return setting_.parts; }
  /// The number of its lanes, in their order, that have a place on the GPU; no other lane ever starts.
  ring::Word resident() const;
  /// The time from the host's call to the kernel's first step.
  const RingLaunch& launch() const { return launch_; }
  /// The number of times that lanes found no room for a descriptor, and their total wait.
  const RingCreditWaits& credit_waits() const { return credit_waits_; }

 private:
  /// The interface that MeshOperations needs.
  struct Port {
    RingKernel* kernel;
    void describe(const RingDescriptor& what, Picoseconds seen_ps) const;
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
    bool paid = false;                     // for the operation that it has claimed
    Picoseconds without_credit_ps = -1;    // since when it has waited for room for its descriptor; -1: it does not wait
    std::optional<std::uint64_t> place{};  // reserved, and not written yet
  };
  using Lanes = std::vector<std::size_t>;

  /// Steps each lane that is awake, in their order. True if one made progress.
  bool pass();
  /// True if it made progress; otherwise it sleeps, unless it only waits for time to pass.
  bool advance(std::size_t lane);
  bool run_lane(ring::KernelLane& lane, LaneClock& clock);
  bool look_for_work(ring::KernelLane& lane);
  void be_busy_until(std::size_t lane, Picoseconds until_ps);
  void wake(Lanes& lanes);
  void wake(std::unordered_map<ring::Word, Lanes>& lanes, ring::Word what);
  void sleep_until_ready(std::size_t lane, ring::MeshNeed need, const ring::Word* args);
  bool has_descriptors() const { return setting_.settings.queue != "direct"; }
  /// Whether a PUT or SIGNAL may be written into its queue; if not, the lane sleeps.
  bool may_describe(const ring::KernelLane& lane, LaneClock& clock, ring::Word op, const ring::Word* args);
  /// Of a connection, counted across epochs.
  ring::Word message_of(const ring::Word* args) const;
  bool act_on_time();
  Picoseconds next_time() const;
  Picoseconds cost_of(ring::Word op, const ring::Word* args) const;
  Picoseconds claimed_until(ring::Word slot, Picoseconds now_ps) const;
  Picoseconds launch_of(ring::Word slot) const;
  void note_part(ring::Word op, Picoseconds begin_ps, Picoseconds launched_ps, Picoseconds end_ps);
  void note(const ring::KernelLane& lane, RingEventKind kind);
  char* bytes_at(ring::Word space, ring::Word offset);

  Setting setting_;
  Port port_;
  ring::MeshOperations<ring::PlainWords, Port> mesh_;
  coll::ReduceKernels kernels_;
  RingProxy* proxy_ = nullptr;
  RingLandings* landings_ = nullptr;
  std::vector<ring::KernelLane> lanes_;
  std::vector<LaneClock> clocks_;
  ClaimableSlots claimable_;
  std::set<std::size_t> awake_;                         // lanes
  std::set<std::pair<Picoseconds, std::size_t>> busy_;  // until when, which lane
  std::unordered_map<ring::Word, Lanes> wait_for_id_;   // by the id of an operation
  std::unordered_map<ring::Word, Lanes> wait_for_arrival_, wait_for_completion_, wait_for_signal_;  // by connection
  Lanes wait_for_room_, wait_for_io_;
  std::vector<ring::Word> signals_;  // by connection: number of SIGNALs described
  RingLaunch launch_{};
  RingCreditWaits credit_waits_{};
  bool rang_ = false;                    // the lane that describes now has rung a doorbell
  std::optional<std::uint64_t> place_;   // reserved, of the lane that describes now
  std::vector<ring::Word> tasks_;        // by slot: number of times that the task has ended
  std::vector<Picoseconds> visible_ps_;  // by slot: when a lane can see what was published
  std::map<std::pair<Picoseconds, std::uint64_t>, std::function<void()>>
      timers_;  // by time, then in the order of the requests
  std::uint64_t timer_count_ = 0;
  std::uint64_t ended_ = 0;
  std::vector<ring::Word> done_;
  std::optional<std::uint64_t> stop_after_;  // slots: after that many no lane executes
  bool stopping_ = false;
};

/// Carries messages between one ring's slots and the net plugin. With descriptor queues a PUT and its SIGNAL are one
/// descriptor and one message (Megakernel::fuses); or each is one, the SIGNAL's of 8 bytes, on whose arrival the flag
/// is raised: as GIN posts a WRITE and an atomic behind it on one queue pair.
class RingProxy {
 public:
  struct Setting {
    RankHost& host;
    coll::NetTable& net;
    const coll::SlotProgram& program;
    RingSpaces& spaces;
    RingProxyUser& kernel;
    const Megakernel& settings;
    int ring = 0;
    const char* threads = nullptr;  // [proxy] what its thread dozes on
  };
  explicit RingProxy(const Setting& setting);

  /// Listens, connects and registers: every rank calls it.
  Result<void> connect();
  Result<void> close();

  /// One pass over all work of that one of the rank's proxies. True if there was progress.
  Result<bool> pass(int proxy);
  /// Whether it has requests at the net plugin, or messages to post.
  bool waits_for_net(int proxy) const;
  /// Whether messages that it sent are under way: they are acknowledged, retransmitted or failed after a limited time.
  bool sends() const;
  /// When a program begins again, its landings accept the same number of messages again.
  void begin_epoch();

  // The kernel's.
  struct Put {
    void* data;
    std::uint64_t size_bytes;
    ring::Word space;
  };
  void put(ring::Word connection, const Put& put) { sends_[connection].puts.push_back(put); }
  void commit(ring::Word connection, ring::Word puts);
  ring::Word completed(ring::Word connection) const { return sends_[connection].completed; }
  // Likewise, with descriptor queues.
  bool has_room(ring::Word connection) const { return queue_of(connection).queue->has_room(); }
  std::uint64_t describe(const RingDescriptor& what) { return queue_of(what.connection).queue->push(what); }
  // With a place that was reserved before (Megakernel::reserves).
  std::uint64_t reserve(ring::Word connection) const { return queue_of(connection).queue->reserve(); }
  bool is_free(ring::Word connection, std::uint64_t place) const { return queue_of(connection).queue->is_free(place); }
  void describe_at(std::uint64_t place, const RingDescriptor& what) {
    queue_of(what.connection).queue->write(place, what);
  }
  std::uint64_t overcommitted(ring::Word connection) const { return queue_of(connection).queue->overcommitted(); }
  /// A PUT that waits for its SIGNAL: at most one per connection.
  void hold(const RingDescriptor& put) { sends_[put.connection].held = put; }
  const RingDescriptor& held(ring::Word connection) const { return sends_[connection].held; }
  /// The descriptor at that position is seen.
  void show(ring::Word connection, std::uint64_t position);
  // With queues of the NIC's own, which sees what is before a doorbell.
  bool has_doorbell() const { return setting_.settings.queue == "ibgda"; }
  /// What has just been written there is the last of a batch or of an iteration, or behind a doorbell already.
  bool rings_doorbell(const RingDescriptor& what, std::uint64_t position);
  /// WQEs to that rank that are written and wait for a doorbell.
  std::uint64_t without_doorbell(int peer) const;

 private:
  struct End {
    void* comm = nullptr;
    void* listener = nullptr;
    std::array<void*, coll::kSpaces> memory{};
    std::vector<std::uint64_t> signals{};  // the messages of 8 bytes, at most as many as may be under way
    void* signals_memory = nullptr;
  };
  struct Posted {
    void* request = nullptr;
    std::uint64_t position = 0;  // in its queue, if there are any
    bool is_signal = false;
  };
  /// Messages of 8 bytes on a queue pair of their own.
  struct Flags : End {
    std::deque<void*> requests;
    std::uint64_t due = 0, posted = 0;  // sending: signalled; receiving: allowed to arrive
  };
  struct Send : End {
    std::deque<Put> puts;  // not posted yet
    std::deque<Posted> requests;
    std::size_t queue = 0;
    ring::Word committed = 0, posted = 0, completed = 0;
    bool paid = false;  // for the post of the first of `puts`, for which the plugin has no room yet
    RingDescriptor held{};
    Flags flags{};
  };
  struct Receive : End {
    std::deque<void*> requests;
    Flags flags{};
    std::uint64_t open = 0, posted = 0, arrived = 0;
  };
  /// The purpose of a receive.
  struct Incoming {
    void* data = nullptr;
    std::uint64_t size_bytes = 0;
    void* memory = nullptr;
    bool is_signal = false;
  };
  struct Queue {
    std::unique_ptr<DescriptorQueue> queue;
    int proxy = 0;                                  // whose it is
    std::optional<DescriptorQueue::Taken> taken{};  // taken but not posted yet
    bool paid = false;                              // its post
    std::uint64_t paid_end = 0;                     // of ibgda: the posts of all before it
    std::uint64_t written = 0, rung = 0;            // of ibgda: places that are written; those before a doorbell
  };

  static constexpr int kTag = 0;
  static constexpr std::uint64_t kSignalBytes = sizeof(std::uint64_t);

  /// Which of the rank's proxies serves that peer.
  int proxy_of(int peer) const {
    return (peer - setting_.host.rank() + setting_.host.ranks()) % setting_.host.ranks() % setting_.settings.proxies;
  }
  bool is_of(int proxy, const Send& send) const { return proxy_of(sending_of(send).peer) == proxy; }
  bool is_of(int proxy, const Receive& receive) const {
    return proxy_of(setting_.program.receives[static_cast<std::size_t>(&receive - receives_.data())].peer) == proxy;
  }
  const coll::SlotProgram::Sending& sending_of(const Send& send) const {
    return setting_.program.sends[static_cast<std::size_t>(&send - sends_.data())];
  }
  void nudge(ring::Word connection) const {
    setting_.host.nudge(setting_.threads + proxy_of(setting_.program.sends[connection].peer));
  }
  void spend_post();
  /// A put has ended: FENCE sees it when its credit is visible.
  void complete(Send& send);
  Result<bool> pass_ends(Send& send);
  bool has_flag_queues() const { return setting_.settings.other_flag_qp; }
  /// The number of completed ones.
  Result<std::size_t> finish_flags(Flags& flags);
  /// Posts those that are due; false: none could be posted.
  Result<bool> post_flags(Flags& flags, bool sends);
  Result<bool> pass_flags(Send& send);
  Result<bool> pass_flags(ring::Word connection);
  Result<void> enlist_flags(Flags& flags);
  Result<void> close_flags();
  Result<bool> pass_posts(Send& send);
  Incoming incoming(ring::Word connection, std::uint64_t number);
  Result<bool> pass_receives(ring::Word connection);
  void make_queues();
  bool has_queues() const { return !queues_.empty(); }
  /// Whether a SIGNAL is a separate message after its data.
  bool sends_signals() const { return has_queues() && !setting_.settings.fuses && !has_flag_queues(); }
  /// Frees entries of a queue by `free`; lanes see it after Megakernel::credit_ps.
  void give_back(std::function<void()> free);
  const Queue& queue_of(ring::Word connection) const { return queues_[sends_[connection].queue]; }
  Result<bool> pass_queues(int proxy);
  Result<bool> pass_queue(Queue& queue);
  Result<void> came(ring::Word connection, std::uint64_t size_bytes, std::uint64_t due_bytes) const;
  Result<bool> finished(void* request, std::uint64_t* size_bytes) const;
  Result<void> enlist(End& end);
  Result<void> checked(const char* call, int code, std::uint64_t warns_before) const;

  Setting setting_;
  std::vector<Send> sends_;
  std::vector<Receive> receives_;
  std::vector<Queue> queues_;  // none: direct
};

/// A rank's proxies: threads that share its peers, each for all rings.
class RingProxies {
 public:
  RingProxies(RankHost& host, const Megakernel& settings);
  /// [proxy] what its thread dozes on.
  const char* threads() const { return keys_.data(); }
  /// Both must outlive this object.
  void add(RingProxy& proxy, RingKernel& kernel) {
    proxies_.push_back(&proxy);
    kernels_.push_back(&kernel);
  }

  Result<void> connect();
  Result<void> close();
  void begin_epoch();
  /// Each runs until stop().
  void add_threads(std::vector<RankThread>& threads);
  void stop();
  /// Its error, if it ended without stop().
  const std::optional<Error>& failure() const { return failure_; }

 private:
  void run(int index);

  RankHost& host_;
  Picoseconds pass_ps_;  // duration of one pass over all of them
  std::vector<char> keys_;
  std::vector<RingProxy*> proxies_;
  std::vector<RingKernel*> kernels_;
  bool stopping_ = false;
  std::optional<Error> failure_;
};

}  // namespace meshbed::testbed

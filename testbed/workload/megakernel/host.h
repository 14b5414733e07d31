#pragma once
// RingHost: the host's side of one rank's rings: publishes slots, waits for their results, and checks periodically for
// progress (plugin/ring/kernel/verdict.h). It runs in the rank's "host" thread and owns all rings of the rank.

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plugin/base/prng.h"
#include "plugin/ring/kernel/verdict.h"
#include "plugin/ring/telemetry/telemetry.h"
#include "testbed/scenario/megakernel/slot_programs.h"
#include "testbed/workload/megakernel/rank.h"

namespace meshbed::testbed {

/// How one rank's ring ended.
struct RingVerdict {
  int rank = 0;
  bool reached = false;  // the rank's ring came to an end at all
  Picoseconds at_ps = 0;
  ring::Cause cause = ring::Cause::kDrained;
  std::string text;
  std::uint32_t queue_depth = 0;
  bool ancestor_suspects = false;  // a stall, by its own watchdog's rule
  int ring = 0;                    // of its rank's
  int waits_for = -1;              // kWaitsForPeer: the rank whose message does not come
  bool broken_off = false;         // the run ended with an error while the ring had work: what it was at then
};

/// What a host's watchdog saw of one ring.
struct RingWatch {
  std::uint64_t looks = 0, in_vain = 0;  // nothing had moved since the look before
  std::uint64_t suspected = 0;           // looks at which the ancestor's watchdog suspects a stall
  ring::RuntimeCounters counters{};      // of the last look, at the latest at the end
  std::string health = "idle";  // a name of ring::WatchdogVerdict: what the telemetry made of the last two looks
};

/// What a queue's host has published, and what must have come of it.
struct QueueCount {
  std::uint64_t published = 0;
  std::uint64_t adds = 0;  // to the observables, by what was published
};

class RingHost {
 public:
  /// `works`: whether anything is under way at any rank (RingKernel::works()), so that this one only waits, given for
  /// how long this one has come no further.
  /// `ended`: what the kernels nudge whenever a slot has ended.
  RingHost(RankHost& host, const Megakernel& settings, RingTrace& trace, std::function<bool(Picoseconds)> works,
           const void* ended)
      : host_(host), settings_(settings), trace_(trace), works_(std::move(works)), ended_(ended) {}
  /// All of them before anything runs, in their order; they outlive this.
  void add(RingBuffers& buffers, RingKernel& kernel, const coll::SlotProgram& program) {
    rings_.push_back({.buffers = buffers, .kernel = kernel, .program = program});
    rings_.back().index = static_cast<int>(rings_.size() - 1);
  }
  void add(RingBuffers& buffers, RingKernel& kernel, const RingProgram& program) {
    add(buffers, kernel, program.slots);
    rings_.back().marks = &program.marks;
    rings_.back().places = ring_places_of(settings_, program);
  }

  /// Each ring's program, then its BATCH_FENCE; returns when all fences are done, or a ring is stuck. `epoch` from 1
  /// on.
  void run_epoch(ring::Word epoch, const RingProxies& proxies);
  /// Items as they arrive, one ring after the other; returns when all are done, or a ring is stuck.
  void run_queue(std::uint64_t seed);

  int rank() const { return host_.rank(); }
  bool stuck() const { return stuck_; }
  /// That ring, if it is stuck, is so because its slots are in a cycle of those that wait for each other.
  void note_cycle(int ring);
  /// The result of that ring is none: a slot, or the host, read what had not landed yet.
  void note_stale(std::size_t ring, const std::string& text);
  /// What moves the messages of all of its rings has ended: none of them has drained, whatever its slots are.
  void note_failed(const std::string& why);
  /// The run has ended with an error: a ring with work left has not drained.
  void give_up() { given_up_ = true; }
  RingVerdict verdict(std::size_t ring) const;
  const QueueCount& counted(std::size_t ring) const { return rings_[ring].counted; }
  const RingWatch& watched(std::size_t ring) const { return rings_[ring].watch; }
  /// Updates the counters to their present values, after the end of a run.
  void look_once_more();
  /// Of a queue: where its ADDs go.
  static constexpr ring::Word kAddWords = 16;

 private:
  struct Item {
    ring::Word opcode = 0, tenant = 0, level = ring::priority::kNormal;
    ring::Word args[ring::mesh_arg::kWords] = {};
    std::optional<ring::Word> slot{};  // that it had in a recording
    std::uint64_t adds = 0;            // to the observables
    Picoseconds arrived_ps = -1;       // of a queue's; -1: as it is published
  };
  struct Ring {
    RingBuffers& buffers;
    RingKernel& kernel;
    const coll::SlotProgram& program;
    int index = 0;
    // Of a queue: slots that are free, and by level from where on the next one is looked for.
    std::set<ring::Word> free{};
    ring::Word next[ring::priority::kLevels] = {};
    QueueCount counted{};
    // The watchdog's.
    ring::Word done_before = 0;
    std::uint64_t ended_before = 0;
    Picoseconds progressed_ps = 0;  // when a slot was last seen to have ended
    int looks_in_vain = 0;
    std::optional<RingVerdict> stuck{};
    RingWatch watch{};
    std::optional<ring::RingTelemetry> seen{};
    // Of a program: whose its slots are, and where they go.
    const std::vector<SlotMark>* marks = nullptr;
    RingPlaces places{};
    // Of an epoch.
    ring::Word done_at_start = 0;
    std::size_t unpublished = 0;  // slots that wait for their arrival, for others or for a place
    bool fenced = false;
    bool in_order() const { return marks->empty() && !places.reuses && !places.levels; }
  };
  class Publisher;
  Item draw(Prng& prng, int number) const;
  /// The recording's item of that number, as this run can do it.
  Item recorded(int number) const;
  /// Takes `compute`, comes so often to that end, then is done.
  void become_task(Item& item, ring::End end, ring::Word times) const;
  Picoseconds gap(Prng& prng) const;
  /// When an item comes, the one before having come at `before_ps`, and the first call at `start_ps`.
  Picoseconds due(Prng& prng, int number, Picoseconds start_ps, Picoseconds before_ps) const;
  /// `wanted`, where the item has been in that slot and it is free; else a free slot for its level, from where the last
  /// one was found on.
  std::optional<ring::Word> free_slot(Ring& ring, const Item& item) const;
  static void take_free(Ring& ring);
  static bool is_queued(Ring& ring);
  void publish(Ring& ring, ring::Word slot, const Item& item);
  void publish_step(Ring& ring, ring::Word slot, ring::Word epoch);
  /// All slots of an epoch, as they arrive and as there are places for them.
  void publish_epoch(ring::Word epoch, const std::function<bool()>& goes_on);
  static bool has_done(const Ring& ring, std::uint64_t slots);
  void mask_on_time();
  void serve_io();
  /// Until a slot has ended or it is time to look, at the latest at `until_ps` (negative: whenever). False: it is
  /// stuck.
  bool wait(Picoseconds until_ps);
  bool look();
  void look_at(Ring& ring);
  static void take_counters(Ring& ring, ring::Mode mode);
  RingVerdict judge(const Ring& ring, ring::Word done_delta) const;
  ring::Mode mode() const { return settings_.strict ? ring::Mode::kStrict : ring::Mode::kSafe; }

  RankHost& host_;
  const Megakernel& settings_;
  RingTrace& trace_;
  std::function<bool(Picoseconds)> works_;
  const void* ended_;
  std::vector<Ring> rings_;
  std::optional<Picoseconds> next_look_ps_;
  bool stuck_ = false;
  bool given_up_ = false;
  bool masked_ = false;
};

}  // namespace meshbed::testbed

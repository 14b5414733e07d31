#pragma once
// RingHost: the host's side of one rank's ring: publishes slots, waits for what comes of them, and looks now and then
// whether anything does (plugin/ring/kernel/verdict.h). It runs in the rank's "host" thread.

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/workload/megakernel/rank.h"
#include "plugin/base/prng.h"
#include "plugin/ring/kernel/verdict.h"

namespace meshbed::cli {

/// How one rank's ring ended.
struct RingVerdict {
  int rank = 0;
  bool reached = false;  // the rank's ring came to an end at all
  Picoseconds at_ps = 0;
  ring::Cause cause = ring::Cause::kDrained;
  std::string text;
  std::uint32_t queue_depth = 0;
  bool ancestor_suspects = false;  // a stall, by its own watchdog's rule
};

/// What a queue's host has published, and what must have come of it.
struct QueueCount {
  std::uint64_t published = 0;
  std::uint64_t adds = 0;  // to the observables, by what was published
};

class RingHost {
 public:
  /// `works`: whether anything is under way at any rank (RingKernel::works()): who waits for that is not stuck.
  RingHost(RankHost& host, const Megakernel& settings, RingBuffers& buffers, RingKernel& kernel, RingTrace& trace,
           std::function<bool()> works)
      : host_(host), settings_(settings), buffers_(buffers), kernel_(kernel), trace_(trace), works_(std::move(works)) {}

  /// A program's slots, then BATCH_FENCE; returns when the fence is done, or the ring is stuck. `epoch` from 1 on.
  void run_epoch(const coll::SlotProgram& program, ring::Word epoch, const RingProxy* proxy);
  /// Items as they arrive; returns when all are done, or the ring is stuck.
  void run_queue(std::uint64_t seed);

  const std::optional<RingVerdict>& stuck() const { return stuck_; }
  RingVerdict verdict() const;
  const QueueCount& counted() const { return counted_; }
  /// Of a queue: where its ADDs go.
  static constexpr ring::Word kAddWords = 16;

 private:
  struct Item {
    ring::Word opcode = 0, tenant = 0, level = ring::priority::kNormal;
    ring::Word args[ring::mesh_arg::kWords] = {};
  };
  Item draw(Prng& prng, int number) const;
  Picoseconds gap(Prng& prng) const;
  /// A free slot for that level, from where the last one was found on.
  std::optional<ring::Word> free_slot(ring::Word level);
  void publish(ring::Word slot, const Item& item);
  void mask_on_time();
  void serve_io();
  /// Until a slot has ended or it is time to look, at the latest at `until_ps` (negative: whenever). False: it is
  /// stuck.
  bool wait(Picoseconds until_ps);
  bool look();

  RankHost& host_;
  const Megakernel& settings_;
  RingBuffers& buffers_;
  RingKernel& kernel_;
  RingTrace& trace_;
  std::function<bool()> works_;
  ring::Word next_[ring::priority::kLevels] = {};
  // The watchdog's.
  std::optional<Picoseconds> next_look_ps_;
  ring::Word done_before_ = 0;
  std::uint64_t ended_before_ = 0;
  int looks_in_vain_ = 0;
  std::optional<RingVerdict> stuck_;
  QueueCount counted_;
  bool masked_ = false;
};

}  // namespace meshbed::cli

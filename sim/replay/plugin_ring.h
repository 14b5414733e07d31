#pragma once
// PluginRing: one iteration of a collective round the ring, or along it, with all that the net plugin adds between
// neighbours that share their cable with no other pair.
//
// The receiver posts up to a window of receives ahead, and announces them by clear-to-send writes of 32 bytes a
// receive: at once, unless the sender has enough announced receives; those held back go together (the rule of
// plugin/net/rdma/receive_announce.cpp, with receive.h's may_hold_back()). A slice is written with immediate data when
// its clear-to-send has arrived, and, unless it is the rank's own, when it has arrived from the rank before
// (plugin/coll/run/channel_run.h). It is complete when its acknowledgement is back, one latency after its arrival; no
// more than a window of slices is incomplete. Headers are those of models/link.h. Software takes no time, as under the
// profile `ideal`.
//
// Cost: one event a slice; a window of times a rank. Internal to sim/replay.

#include <cstdint>
#include <vector>

#include "plugin/base/collective.h"
#include "sim/replay/hops.h"
#include "sim/replay/replay.h"
#include "sim/replay/run.h"
#include "sim/replay/time_queue.h"

namespace meshbed::sim {

inline constexpr std::uint64_t kClearToSendBytes = 32;

/// A hop and the way back over the same cable, and what its messages weigh.
struct PluginHop {
  ReplayHop forth, back;
  std::uint32_t pmtu_bytes = 4096;
};

class PluginRing {
 public:
  /// `hops`: [place] to the next place; places are ranks, or for a chain counted from its first rank, `first`. Of a
  /// folded ring there is one.
  PluginRing(const ReplayRequest& request, std::vector<PluginHop> hops, int first, bool folded);

  ReplayTotals run();
  /// Slices that the plan has, clear-to-send writes not counted; of one rank where folded.
  std::uint64_t planned_slices() const;
  /// Clear-to-send writes, and the receives that they announced.
  std::uint64_t announcements() const { return announcements_; }
  std::uint64_t announced_receives() const { return announced_receives_; }
  std::uint64_t planned_bytes() const;

 private:
  static constexpr std::uint64_t kRingEntries = 256;         // plugin/net/wire/ring.h
  static constexpr std::uint64_t kEnoughBytes = 192 * kKiB;  // plugin/net/rdma/receive.h
  static constexpr std::uint64_t kFirstEntryBytes = 4096;    // plugin/net/rdma/receive.cpp
  static constexpr std::uint32_t kWindow = 8;  // plugin/nccl/net_abi.h: kMaxRequests, and meshcoll's `steps`
  static constexpr std::uint32_t kWake = 0;    // a tag; of a slice that arrives, its chunk + 1

  struct Place {
    Picoseconds forth_free_ps = 0, back_free_ps = 0;
    Picoseconds full_ps = 0, last_long_ps = 0, last_short_ps = 0;
    std::uint64_t back_bps = 0;  // to the place before
    std::uint32_t back_pmtu_bytes = 0;
    Picoseconds forth_latency_ps = 0, back_latency_ps = 0;
    std::uint32_t send_step = 0, send_slice = 0, recv_step = 0, recv_slice = 0;
    std::uint32_t chunk = 0, due_chunk = 0;  // of those steps
    std::uint64_t sends = 0, completed = 0, forwarded = 0;
    std::uint64_t receives = 0, received = 0, notified = 0;  // posted, done, announced to the sender
    std::uint64_t announced = 0;                             // by the receiver of its sends
    std::uint64_t first_entry = 0;                           // of the ring of clear-to-sends, after the warm-up
    std::uint64_t entry_bytes = 0;                           // as receive.h's entry_bytes_
    std::uint32_t arriving_chunk = 0, arriving_slice = 0;
    bool waits_for_cts = false;
    Picoseconds acknowledged_ps[kWindow] = {};  // by slice % window
    Picoseconds cts_arrived_ps[kWindow] = {};
  };

  std::uint32_t places() const { return static_cast<std::uint32_t>(places_.size()); }
  std::uint32_t next(std::uint32_t place) const { return place + 1 == places() ? 0 : place + 1; }
  std::uint32_t before(std::uint32_t place) const { return place == 0 ? places() - 1 : place - 1; }
  std::uint32_t send_steps(std::uint32_t place) const { return is_chain_ && place + 1 == places() ? 0 : steps_; }
  std::uint32_t recv_steps(std::uint32_t place) const { return is_chain_ && place == 0 ? 0 : steps_; }
  bool is_forwarded(std::uint32_t place, std::uint32_t step) const { return is_chain_ ? place > 0 : step > 0; }
  bool forwards(std::uint32_t place, std::uint32_t step) const {
    return is_chain_ ? place + 1 < places() : step + 1 < steps_;
  }
  std::uint32_t chunk_before(std::uint32_t chunk) const { return chunk == 0 ? chunks_ - 1 : chunk - 1; }
  std::uint32_t slices(std::uint32_t chunk) const { return chunk < longer_ ? long_slices_ : short_slices_; }
  std::uint64_t bytes_of(std::uint32_t chunk, std::uint32_t slice) const;

  void arrive(std::uint32_t number, std::uint32_t chunk, Picoseconds now_ps);
  void advance(std::uint32_t number, Picoseconds now_ps);
  void post_receives(std::uint32_t number, Picoseconds now_ps);
  bool may_hold_back(const Place& place) const {
    const std::uint64_t announced = place.notified - place.received, held = place.receives - place.notified;
    return held <= announced && (announced - 1) * place.entry_bytes >= kEnoughBytes;
  }
  void announce(std::uint32_t number, Picoseconds now_ps);
  /// What its receives of so many earlier iterations leave behind.
  void warm_up(std::uint32_t number, int iterations);
  void post_sends(std::uint32_t number, Picoseconds now_ps);
  void note(const ReplayRecord& record);
  int rank_of(std::uint32_t place) const { return static_cast<int>((place + first_) % ranks_); }

  const ReplayRequest& request_;
  std::uint32_t ranks_, first_;
  bool is_chain_;
  std::uint32_t steps_, chunks_;
  std::uint64_t full_bytes_ = 0, last_long_bytes_ = 0, last_short_bytes_ = 0;
  std::uint32_t longer_ = 0, long_slices_ = 0, short_slices_ = 0;
  std::vector<Place> places_;
  TimeQueue queue_;
  ReplayTotals totals_;
  std::uint64_t announcements_ = 0, announced_receives_ = 0;
};

}  // namespace meshbed::sim

#pragma once
// SteadyState: finds where the state of a replay repeats exactly, so that whole periods need not be simulated.
//
// Nomenclature. State: of each stream how many messages it has sent and received and when it is free; of each link
// until when it serves which stream; and all events to come. Times count from now. Period: what lies between two
// moments with the same state, but for the numbers of messages: of each stream either so many more, or none.
//
// What happens after a moment depends on its state and on the messages to come. If these are alike, the time after the
// second moment passes as that after the first did, and so for as many periods as there are messages that are alike. So
// all times are equal to the last picosecond; nothing is interpolated, and where the state does not repeat nothing is
// skipped. How many messages lie ready for a stream may differ if there was always one: it grows in front of a slow
// cable, and shrinks once all before it have sent theirs.
//
// The moment that others are compared with is taken again after 1, 2, 4, 8, ... comparisons (Brent, "An improved Monte
// Carlo factorization algorithm", BIT 20, 1980). Cost: O(1) for most comparisons, which fail at one of the first
// streams; O(streams + links + events) for taking one. Internal to sim/replay.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "plugin/base/units.h"
#include "sim/replay/time_queue.h"

namespace meshbed::sim {

struct StreamState {
  Picoseconds free_ps = 0;  // when its last message has left
  std::uint32_t steps = 0;
  std::uint32_t sent = 0;
  std::uint32_t received = 0;
  std::uint32_t idle = 0;  // arrivals that found it without a message to send
  bool waits = true;       // its messages need what it has received
  bool wakes = false;      // there is an event for when it is free
};

struct LinkState {
  Picoseconds free_ps = 0;
  std::uint32_t stream = 0;  // that it serves until then
};

/// Of a run, where its times are those of the last event or later.
struct ReplayState {
  Picoseconds now_ps = 0;
  const std::vector<StreamState>& streams;
  const std::vector<LinkState>& links;
  const TimeQueue& queue;
};

struct Period {
  Picoseconds time_ps = 0;
  std::vector<std::uint32_t> sent, received;  // [stream] in one period
};

class SteadyState {
 public:
  /// The period that ends here; nullopt: none that is known. To be called at moments that a period has one of.
  std::optional<Period> look(const ReplayState& state) {
    if (comparisons_ > 0) {
      --comparisons_;
      if (has_repeated(state)) return period_to(state);
      if (comparisons_ > 0) return std::nullopt;
    }
    remember(state);
    return std::nullopt;
  }

  /// The moment that was remembered is none of the run's any more.
  void forget() {
    comparisons_ = 0;
    next_comparisons_ = 1;
  }

 private:
  static Picoseconds ahead(Picoseconds time_ps, Picoseconds now_ps) {
    return std::max<Picoseconds>(time_ps - now_ps, 0);
  }

  void remember(const ReplayState& state) {
    now_ps_ = state.now_ps;
    streams_ = state.streams;
    links_ = state.links;
    events_ = state.queue.pending();
    comparisons_ = next_comparisons_;
    next_comparisons_ *= 2;
  }

  bool has_repeated(const ReplayState& state) const {
    if (state.queue.size() != events_.size()) return false;
    for (std::size_t at = 0; at < streams_.size(); ++at) {
      const StreamState &now = state.streams[at], &then = streams_[at];
      if (ahead(now.free_ps, state.now_ps) != ahead(then.free_ps, now_ps_)) return false;
      // What it may send depends on the difference of the two, unless it has sent all, or had more than it could send
      // at all times.
      const std::uint32_t sent = now.sent - then.sent, received = now.received - then.received;
      const bool was_busy = sent > 0 && now.idle == then.idle;
      if (sent != received && now.sent != now.steps && !was_busy) return false;
    }
    for (std::size_t at = 0; at < links_.size(); ++at) {
      const Picoseconds left_ps = ahead(state.links[at].free_ps, state.now_ps);
      if (left_ps != ahead(links_[at].free_ps, now_ps_)) return false;
      if (left_ps > 0 && state.links[at].stream != links_[at].stream) return false;
    }
    const std::vector<TimedEvent> events = state.queue.pending();
    for (std::size_t at = 0; at < events.size(); ++at) {
      if (events[at].stream != events_[at].stream) return false;
      if (events[at].when_ps - state.now_ps != events_[at].when_ps - now_ps_) return false;
    }
    return true;
  }

  Period period_to(const ReplayState& state) const {
    Period period{.time_ps = state.now_ps - now_ps_, .sent = {}, .received = {}};
    for (std::size_t at = 0; at < streams_.size(); ++at) {
      period.sent.push_back(state.streams[at].sent - streams_[at].sent);
      period.received.push_back(state.streams[at].received - streams_[at].received);
    }
    return period;
  }

  std::uint64_t comparisons_ = 0, next_comparisons_ = 1;  // until the next moment is taken
  Picoseconds now_ps_ = 0;
  std::vector<StreamState> streams_;
  std::vector<LinkState> links_;
  std::vector<TimedEvent> events_;
};

}  // namespace meshbed::sim

#pragma once
// TimeQueue: events of a replay, in order of (time, sequence).
//
// A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan, "Faster algorithms for the shortest path problem", Journal of the ACM
// 37(2), 1990): a bucket for each position of the highest bit in which a time differs from the time of the last event.
// It needs times that never run back, as a simulation's do. An event moves to a lower bucket at most once a bit, and
// events of one time move together in the order in which they were pushed. Buckets keep their memory, so that pushing
// and popping allocate nothing once warm.
// Cost: O(1) for a push, O(64) amortised for a pop; events of one time cost two moves each.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plugin/base/check.h"
#include "plugin/base/units.h"

namespace meshbed::sim {

struct TimedEvent {
  Picoseconds when_ps = 0;
  std::uint32_t stream = 0;  // that it is about
  std::uint32_t tag = 0;     // what arrives there
};

class TimeQueue {
 public:
  void push(const TimedEvent& event) {
    MESHBED_CHECK_MSG(event.when_ps >= now_ps_, "time never runs back");
    bucket_of(event.when_ps).push_back(event);
    ++size_;
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  /// The earliest event; of several, the one that was pushed first.
  TimedEvent pop() {
    if (next_ == buckets_[0].size()) advance();
    --size_;
    return buckets_[0][next_++];
  }

  /// All events, in the order in which they would be popped.
  std::vector<TimedEvent> pending() const {
    std::vector<TimedEvent> events(buckets_[0].begin() + static_cast<std::ptrdiff_t>(next_), buckets_[0].end());
    for (std::size_t bucket = 1; bucket < buckets_.size(); ++bucket) {
      events.insert(events.end(), buckets_[bucket].begin(), buckets_[bucket].end());
    }
    std::stable_sort(events.begin(), events.end(),
                     [](const TimedEvent& left, const TimedEvent& right) { return left.when_ps < right.when_ps; });
    return events;
  }

  /// `time_ps` passes before all events: `change` may give each another tag.
  template <typename Change>
  void delay(Picoseconds time_ps, const Change& change) {
    const std::vector<TimedEvent> events = pending();
    for (std::vector<TimedEvent>& bucket : buckets_) bucket.clear();
    next_ = size_ = 0;
    now_ps_ += time_ps;
    for (TimedEvent event : events) {
      event.when_ps += time_ps;
      change(event);
      push(event);
    }
  }

 private:
  std::vector<TimedEvent>& bucket_of(Picoseconds when_ps) {
    return buckets_[std::bit_width(static_cast<std::uint64_t>(when_ps ^ now_ps_))];
  }

  /// To the next time: its events move to bucket 0, and those that stood with them to buckets below theirs.
  void advance() {
    buckets_[0].clear();
    next_ = 0;
    std::size_t lowest = 1;
    while (buckets_[lowest].empty()) ++lowest;
    std::vector<TimedEvent>& from = buckets_[lowest];
    Picoseconds least = from.front().when_ps;
    for (const TimedEvent& event : from) least = event.when_ps < least ? event.when_ps : least;
    now_ps_ = least;
    for (const TimedEvent& event : from) bucket_of(event.when_ps).push_back(event);
    from.clear();
  }

  Picoseconds now_ps_ = 0;  // of the last event
  std::size_t next_ = 0;    // in bucket 0
  std::size_t size_ = 0;
  std::array<std::vector<TimedEvent>, 65> buckets_;
};

}  // namespace meshbed::sim

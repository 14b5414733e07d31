#pragma once
// EventQueue: what will happen, in strict order of (time, host, sequence).
//
// Ranks that do the same work do it at the same times, so events stand in batches of one time each, and only the
// batches are in a heap (four children a node). A push finds its batch by a hash of its time; what is not found there
// makes another batch of that time, and batches of one time are joined when it comes. A batch is sorted by (host,
// sequence) when its time comes, which it usually is already. Pushing and popping allocate nothing once warm.
// (Measured on a ring all-reduce of 16 ranks: 140 instructions an event, against 330 with a heap of events.)

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plugin/base/check.h"
#include "sim/engine/timeline.h"

namespace meshbed::sim {

struct Event {
  Picoseconds when_ps;
  int host;
  EventFunction function;
  void* self;
  std::uint64_t argument;
};

class EventQueue {
 public:
  void push(const Event& event) {
    MESHBED_CHECK_MSG(event.when_ps >= now_ps_, "time never runs back");
    const auto host = static_cast<std::uint64_t>(event.host);
    MESHBED_CHECK_MSG(host <= kHostMax && next_sequence_ <= kSequenceMax, "beyond the range of an event's order");
    const Entry entry{host << kSequenceBits | next_sequence_++, event.function, event.self, event.argument};
    if (event.when_ps == now_ps_) {
      due_.insert(std::upper_bound(due_.begin() + static_cast<std::ptrdiff_t>(due_next_), due_.end(), entry, before),
                  entry);
      return;
    }
    Batch& batch = batch_of(event.when_ps);
    batch.sorted &= batch.entries.empty() || before(batch.entries.back(), entry);
    batch.entries.push_back(entry);
  }

  bool empty() const { return due_next_ == due_.size() && heap_.empty(); }
  Picoseconds next_ps() const { return due_next_ < due_.size() ? now_ps_ : heap_.front().when_ps; }

  Event pop() {
    if (due_next_ == due_.size()) advance();
    const Entry& entry = due_[due_next_++];
    // What an event is about has seldom been touched lately where there are many ranks.
    if (due_next_ + kExpected <= due_.size()) __builtin_prefetch(due_[due_next_ + kExpected - 1].self);
    return {now_ps_, static_cast<int>(entry.order >> kSequenceBits), entry.function, entry.self, entry.argument};
  }

 private:
  static constexpr unsigned kSequenceBits = 44;  // 17 trillion events, 1 048 576 hosts
  static constexpr std::uint64_t kSequenceMax = (std::uint64_t{1} << kSequenceBits) - 1;
  static constexpr std::uint64_t kHostMax = ~std::uint64_t{0} >> kSequenceBits;
  static constexpr std::size_t kChildren = 4;
  static constexpr unsigned kRecentBits = 8;
  static constexpr std::size_t kExpected = 4;  // events ahead

  struct Entry {
    std::uint64_t order;  // host, then sequence
    EventFunction function;
    void* self;
    std::uint64_t argument;
  };

  struct Batch {
    Picoseconds when_ps = -1;  // -1: unused
    bool sorted = true;
    std::vector<Entry> entries;
  };

  struct Key {
    Picoseconds when_ps;
    std::uint32_t batch;
  };

  static bool before(const Entry& one, const Entry& other) { return one.order < other.order; }

  Batch& batch_of(Picoseconds when_ps) {
    // Fibonacci hashing: Knuth, The Art of Computer Programming 3, 6.4.
    std::uint32_t& recent = recent_[static_cast<std::uint64_t>(when_ps) * 0x9e3779b97f4a7c15U >> (64U - kRecentBits)];
    if (recent < batches_.size() && batches_[recent].when_ps == when_ps) return batches_[recent];
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(batches_.size()));
      batches_.emplace_back();
    }
    recent = free_.back();
    free_.pop_back();
    batches_[recent].when_ps = when_ps;
    rise({when_ps, recent});
    return batches_[recent];
  }

  /// To the next time: its events become due.
  void advance() {
    due_.clear();
    due_next_ = 0;
    now_ps_ = heap_.front().when_ps;
    bool sorted = true;
    while (!heap_.empty() && heap_.front().when_ps == now_ps_) {
      Batch& batch = batches_[heap_.front().batch];
      free_.push_back(heap_.front().batch);
      sorted &= batch.sorted && due_.empty();
      due_.empty() ? due_.swap(batch.entries)
                   : void(due_.insert(due_.end(), batch.entries.begin(), batch.entries.end()));
      batch.entries.clear();
      batch.when_ps = -1;
      batch.sorted = true;
      const Key last = heap_.back();
      heap_.pop_back();
      if (!heap_.empty()) sink(last);
    }
    if (!sorted) std::sort(due_.begin(), due_.end(), before);
  }

  void rise(const Key& key) {
    heap_.push_back(key);
    std::size_t position = heap_.size() - 1;
    while (position > 0) {
      const std::size_t parent = (position - 1) / kChildren;
      if (key.when_ps >= heap_[parent].when_ps) break;
      heap_[position] = heap_[parent];
      position = parent;
    }
    heap_[position] = key;
  }

  /// `key` goes to the top or below it; what stood there is gone.
  void sink(const Key& key) {
    std::size_t position = 0;
    for (std::size_t child = 1; child < heap_.size(); child = kChildren * position + 1) {
      const std::size_t end = std::min(child + kChildren, heap_.size());
      std::size_t first = child;
      for (std::size_t each = child + 1; each < end; ++each) {
        if (heap_[each].when_ps < heap_[first].when_ps) first = each;
      }
      if (heap_[first].when_ps >= key.when_ps) break;
      heap_[position] = heap_[first];
      position = first;
    }
    heap_[position] = key;
  }

  Picoseconds now_ps_ = 0;  // of the events that are due
  std::vector<Entry> due_;  // by order
  std::size_t due_next_ = 0;
  std::vector<Key> heap_;
  std::vector<Batch> batches_;
  std::vector<std::uint32_t> free_;
  std::array<std::uint32_t, std::size_t{1} << kRecentBits> recent_{};  // batches, by hash of their time
  std::uint64_t next_sequence_ = 0;
};

}  // namespace meshbed::sim

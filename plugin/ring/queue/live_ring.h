#pragma once
// LiveRing: a ring and its control buffer in memory that threads or processes share, worked on while it is published
// into. Safe mode's protocol (live_steps.h): release and acquire, no slot lost or done twice.
//
// Any number of lanes may claim and finish. Each slot has one publisher at a time: several divide the slots between
// them. An object is one thread's; each thread and process makes its own over the same bytes. Waits are bounded, and
// the error of a wait in vain contains what it waited for.

#include <atomic>
#include <cstdint>
#include <optional>

#include "plugin/ring/abi/slot.h"
#include "plugin/ring/queue/live_steps.h"

namespace meshbed::ring {

/// Words of shared memory, as the steps want them.
class SharedWords {
 public:
  SharedWords(Word* control, std::uint64_t control_words, Word* ring)
      : control_(control), control_words_(control_words), ring_(ring) {}

  Word* slot_place(Word slot, Word word) const { return ring_ + std::uint64_t{slot} * kSlotWords + word; }
  Word* control_place(std::uint64_t word) const { return control_ + word; }
  static constexpr Word payload_words() { return kSlotWords - 1; }
  std::uint64_t control_words() const { return control_words_; }

  static Word load(Word* place, Order order) {
    return std::atomic_ref(*place).load(order == Order::kAcquire ? std::memory_order_acquire
                                                                 : std::memory_order_relaxed);
  }
  static void store(Word* place, Word word, Order order) {
    std::atomic_ref(*place).store(word,
                                  order == Order::kRelease ? std::memory_order_release : std::memory_order_relaxed);
  }
  static void add(Word* place, Word amount) {
    std::atomic_ref(*place).fetch_add(amount, std::memory_order_relaxed);  // DONE's release carries it
  }
  static bool swap(Word* place, Word expected, Word desired) {
    return std::atomic_ref(*place).compare_exchange_strong(expected, desired, std::memory_order_acquire,
                                                           std::memory_order_relaxed);
  }

 private:
  Word* control_;
  std::uint64_t control_words_;
  Word* ring_;
};

class LiveRing {
 public:
  /// Errors: as decode_control() and slot_count(); bytes that are not aligned to words.
  static Result<LiveRing> over(MutableBytes control, MutableBytes ring, const Layout& layout);

  Word slots() const { return slots_; }
  const Layout& layout() const { return *layout_; }

  /// Errors: as ring::publish() in safe mode.
  Result<void> publish(const Publication& what);
  /// Waits until the slot is free. Errors: as publish(); kTimeout, which names the slot and its status; kClosed.
  Result<void> publish_within(const Publication& what, std::int64_t timeout_ms);

  /// A slot that this lane has to work on and to finish. Its words stay as they are until then.
  struct Claim {
    Word slot = 0;
    Slot words;  // STATUS: CLAIMED
  };
  /// The next slot from where the last search ended, once round the ring; nothing: none was to be had.
  std::optional<Claim> claim();
  /// Waits for one. Errors: kTimeout; kClosed once the ring is shut down and nothing was to be had.
  Result<Claim> claim_within(std::int64_t timeout_ms);

  /// `as`: DONE, YIELD, REQUEUE, WAIT_IO or FAULT. Errors: another status, a slot that is not CLAIMED.
  Result<void> finish(Word slot, Word as = status::kDone);

  /// Waits until the slot is DONE. Errors: kTimeout; a slot that has faulted or was never published.
  Result<void> done_within(Word slot, std::int64_t timeout_ms);

  void shut_down();
  bool is_shut_down() const;
  Word done_count() const;
  Word status_of(Word slot) const;
  void set_tenant(Word tenant, bool may_run);  // of those that have a mask

 private:
  LiveRing(SharedWords words, Word slots, const Layout& layout) : words_(words), slots_(slots), layout_(&layout) {}
  bool try_claim(Word slot, Claim& claim);

  SharedWords words_;
  Word slots_;
  const Layout* layout_;
  Word next_ = 0;  // where the next search begins
};

}  // namespace meshbed::ring

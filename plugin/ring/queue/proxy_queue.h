#pragma once
// ProxyQueue: the queue between a GPU that produces operations and a host's thread that posts them, over memory that
// both share. One implementation; a scheme defines what a slot holds, how a written one is recognised, and when its
// place is returned:
//
//                    GinScheme (NCCL's GIN proxy)            FifoScheme (MSCCL++'s port channel)
//   slot             16 words of 64 bits                     2 words
//   written          bit 0 of every word                     parity of the lap in bit 63 of word 1
//   after reading    zeroed                                  left
//   place given back when it and all before it are complete  as soon as it is posted
//   indexes          32 bits, wrap                           64 bits
//
// IbgdaScheme is the same between a GPU and the NIC: 8 words, written when the first has the place's index, left after
// reading, given back when it and all before it are complete, indexes of 64 bits. That the NIC looks, a doorbell says.
//
// Nomenclature: head - what producers have reserved; tail - below it all places are free again; next - what the one
// consumer looks at. Any number of producers; one consumer. push() reserves only a place that is free, so that one
// whose wait ends in vain leaves nothing behind. Its words are written with release, and read with acquire: what the
// producer wrote before is there when the consumer sees the operation.

#include <atomic>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/ring/abi/words.h"
#include "plugin/ring/queue/fifo_trigger.h"
#include "plugin/ring/queue/gin_descriptor.h"
#include "plugin/ring/queue/ibgda_wqe.h"
#include "plugin/ring/queue/wait.h"

namespace meshbed::ring {

struct GinScheme {
  using Index = std::uint32_t;
  using Item = GinWords;
  static constexpr bool kFreeWhenPosted = false;

  static void write(std::uint64_t* slot, const Item& item, Index /*position*/, Index /*depth*/) {
    for (std::size_t word = 0; word < kGinWords; ++word) {
      std::atomic_ref(slot[word]).store(item[word] | 1U, std::memory_order_release);
    }
  }
  static bool begun(std::uint64_t* slot, Index /*position*/, Index /*depth*/) {
    return (std::atomic_ref(slot[0]).load(std::memory_order_acquire) & 1U) != 0;
  }
  /// The first word that is not written yet; -1: it is all there, and in `item`.
  static int read(std::uint64_t* slot, Item& item, Index /*position*/, Index /*depth*/) {
    for (std::size_t word = 0; word < kGinWords; ++word) {
      item[word] = std::atomic_ref(slot[word]).load(std::memory_order_acquire);
      if ((item[word] & 1U) == 0) return static_cast<int>(word);
    }
    for (std::size_t word = 0; word < kGinWords; ++word) {
      std::atomic_ref(slot[word]).store(0, std::memory_order_relaxed);  // the tail's release carries it
    }
    return -1;
  }
};

struct FifoScheme {
  using Index = std::uint64_t;
  using Item = FifoWords;
  static constexpr bool kFreeWhenPosted = true;
  static constexpr std::uint64_t kCommit = std::uint64_t{1} << 63U;

  static void write(std::uint64_t* slot, const Item& item, Index position, Index depth) {
    std::atomic_ref(slot[0]).store(item[0], std::memory_order_relaxed);
    const std::uint64_t committed = (item[1] & ~kCommit) | fifo_commit(position, depth);
    std::atomic_ref(slot[1]).store(committed, std::memory_order_release);
  }
  static bool begun(std::uint64_t* slot, Index position, Index depth) {
    const std::uint64_t word = std::atomic_ref(slot[1]).load(std::memory_order_acquire);
    return (word & kCommit) == fifo_commit(position, depth);
  }
  static int read(std::uint64_t* slot, Item& item, Index /*position*/, Index /*depth*/) {
    item[1] = std::atomic_ref(slot[1]).load(std::memory_order_acquire) & ~kCommit;
    item[0] = std::atomic_ref(slot[0]).load(std::memory_order_relaxed);
    return -1;
  }
};

struct IbgdaScheme {
  using Index = std::uint64_t;
  using Item = WqeWords;
  static constexpr bool kFreeWhenPosted = false;

  static void write(std::uint64_t* slot, const Item& item, Index position, Index /*depth*/) {
    const Item placed = with_index(item, static_cast<std::uint16_t>(position));
    for (std::size_t word = kWqeWords - 1; word > 0; --word) {
      std::atomic_ref(slot[word]).store(placed[word], std::memory_order_relaxed);
    }
    std::atomic_ref(slot[0]).store(placed[0], std::memory_order_release);
  }
  static bool begun(std::uint64_t* slot, Index position, Index /*depth*/) {
    return is_wqe_at(std::atomic_ref(slot[0]).load(std::memory_order_acquire), static_cast<std::uint16_t>(position));
  }
  static int read(std::uint64_t* slot, Item& item, Index /*position*/, Index /*depth*/) {
    for (std::size_t word = 0; word < kWqeWords; ++word) {
      item[word] = std::atomic_ref(slot[word]).load(std::memory_order_acquire);
    }
    return -1;
  }
};

/// The memory that both sides share; zeroed before either side uses it.
template <typename Scheme>
struct ProxyQueueMemory {
  std::span<std::uint64_t> words;  // depth slots
  typename Scheme::Index* head = nullptr;
  typename Scheme::Index* tail = nullptr;
};

/// The number of slots. Errors: a depth that is not a power of two (the slot could not be derived from the index when
/// that wraps), words that are not whole slots.
template <typename Scheme>
Result<typename Scheme::Index> queue_depth(const ProxyQueueMemory<Scheme>& memory) {
  constexpr std::size_t kWords = std::tuple_size_v<typename Scheme::Item>;
  const std::size_t depth = memory.words.size() / kWords;
  if (memory.words.size() % kWords != 0) {
    return refused("a queue of " + std::to_string(memory.words.size()) + " words holds no whole number of slots");
  }
  if (!std::has_single_bit(depth) || depth > std::size_t{1} << 31U) {
    return refused("a queue's depth is a power of two, not " + std::to_string(depth));
  }
  return static_cast<typename Scheme::Index>(depth);
}

template <typename Scheme>
std::uint64_t* slot_of(const ProxyQueueMemory<Scheme>& memory, typename Scheme::Index position,
                       typename Scheme::Index depth) {
  return memory.words.data() +
         static_cast<std::size_t>(position & (depth - 1)) * std::tuple_size_v<typename Scheme::Item>;
}

/// One producer's view; each thread makes its own.
template <typename Scheme>
class ProxyQueueProducer {
 public:
  using Index = typename Scheme::Index;
  using Item = typename Scheme::Item;

  static Result<ProxyQueueProducer> over(const ProxyQueueMemory<Scheme>& memory) {
    const auto depth = queue_depth(memory);
    if (!depth) return depth.error();
    return ProxyQueueProducer(memory, *depth);
  }

  /// nullopt: the queue is full.
  std::optional<Index> try_push(const Item& item) {
    std::atomic_ref head(*memory_.head);
    Index position = head.load(std::memory_order_relaxed);
    do {
      // Acquire: the consumer has read, and where it does so cleared, the slot before it gave the place back.
      const Index tail = std::atomic_ref(*memory_.tail).load(std::memory_order_acquire);
      if (static_cast<Index>(position - tail) >= depth_) {
        // Another producer may have moved both since `position` was read.
        const Index now = head.load(std::memory_order_relaxed);
        if (now == position) return std::nullopt;
        position = now;
        continue;
      }
      if (head.compare_exchange_weak(position, position + 1, std::memory_order_relaxed)) break;
    } while (true);
    Scheme::write(slot(position), item, position, depth_);
    return position;
  }
  /// Waits for a free place. Errors: kTimeout, which names the place that is not given back.
  Result<Index> push(const Item& item, std::int64_t timeout_ms) {
    std::optional<Index> position;
    wait_until(timeout_ms, 1, [&] { return (position = try_push(item)).has_value(); });
    if (position) return *position;
    const Index tail = std::atomic_ref(*memory_.tail).load(std::memory_order_acquire);
    return waited_in_vain("all " + std::to_string(depth_) + " places are taken, and operation " + std::to_string(tail) +
                              (Scheme::kFreeWhenPosted ? " has not been posted" : " has not been completed"),
                          timeout_ms);
  }
  // The originals reserve by fetch-and-add whether there is room or not, and then wait for their own place: the head
  // may run ahead of what the queue holds, and one that never writes blocks all behind it.
  Index reserve() { return std::atomic_ref(*memory_.head).fetch_add(1, std::memory_order_relaxed); }
  /// The reserved place may be written.
  bool is_free(Index position) const { return static_cast<Index>(position - tail()) < depth_; }
  void write(Index position, const Item& item) { Scheme::write(slot(position), item, position, depth_); }

  /// All places below are free again: of GIN, everything before was completed; of the FIFO, posted.
  Index tail() const { return std::atomic_ref(*memory_.tail).load(std::memory_order_acquire); }

 private:
  ProxyQueueProducer(const ProxyQueueMemory<Scheme>& memory, Index depth) : memory_(memory), depth_(depth) {}
  std::uint64_t* slot(Index position) const { return slot_of<Scheme>(memory_, position, depth_); }

  ProxyQueueMemory<Scheme> memory_;
  Index depth_;
};

/// The proxy's side: one thread.
template <typename Scheme>
class ProxyQueueConsumer {
 public:
  using Index = typename Scheme::Index;
  using Item = typename Scheme::Item;
  struct Taken {
    Index position = 0;
    Item item{};
  };

  static Result<ProxyQueueConsumer> over(const ProxyQueueMemory<Scheme>& memory) {
    const auto depth = queue_depth(memory);
    if (!depth) return depth.error();
    return ProxyQueueConsumer(memory, *depth);
  }

  /// The next operation, in the order of the reservations; nullopt: it has not begun to be written, or all places wait
  /// for their completion. Errors: kTimeout where one was begun and not ended within the time; it names the word.
  Result<std::optional<Taken>> take(std::int64_t timeout_ms = 1000) {
    if (static_cast<Index>(next_ - *memory_.tail) >= depth_) return std::optional<Taken>();
    std::uint64_t* const place = slot(next_);
    if (!Scheme::begun(place, next_, depth_)) return std::optional<Taken>();
    Taken taken{.position = next_};
    int missing = 0;
    wait_until(timeout_ms, 1, [&] { return (missing = Scheme::read(place, taken.item, next_, depth_)) < 0; });
    if (missing >= 0) {
      return waited_in_vain(
          "operation " + std::to_string(next_) + " was begun, and its word " + std::to_string(missing) + " not written",
          timeout_ms);
    }
    ++next_;
    return std::optional<Taken>(taken);
  }

  /// It is on its way: a scheme that frees its place now does. Operations are posted in their order.
  void posted(Index position) {
    if (Scheme::kFreeWhenPosted) give_back(position + 1);
  }
  /// It is complete. Of a scheme that frees in order, places are given back up to the first that is not.
  void completed(Index position) {
    if (Scheme::kFreeWhenPosted) return;
    done_[static_cast<std::size_t>(position & (depth_ - 1))] = true;
    Index tail = *memory_.tail;
    while (tail != next_ && done_[static_cast<std::size_t>(tail & (depth_ - 1))]) {
      done_[static_cast<std::size_t>(tail & (depth_ - 1))] = false;
      ++tail;
    }
    if (tail != *memory_.tail) give_back(tail);
  }
  Index next() const { return next_; }

 private:
  ProxyQueueConsumer(const ProxyQueueMemory<Scheme>& memory, Index depth)
      : memory_(memory), depth_(depth), next_(*memory.tail), done_(static_cast<std::size_t>(depth), false) {}
  std::uint64_t* slot(Index position) const { return slot_of<Scheme>(memory_, position, depth_); }
  void give_back(Index tail) { std::atomic_ref(*memory_.tail).store(tail, std::memory_order_release); }

  ProxyQueueMemory<Scheme> memory_;
  Index depth_;
  Index next_;
  std::vector<bool> done_;  // by slot: complete, and not given back
};

}  // namespace meshbed::ring

#include "plugin/coll/run/pinned_pool.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "plugin/base/counted.h"

namespace meshbed::coll {
namespace {

/// What another call is given than the one it was allocated for is larger at most by so much.
constexpr std::uint64_t kLargerMost = 4;

/// Words, at which streams may look when their owner has gone, are not among what calls work in.
constexpr std::uint64_t kWordsBytes = 64;

/// So that calls of a few sizes find each other's: a power of two, or many pages.
std::uint64_t rounded_up(std::uint64_t size_bytes) {
  if (size_bytes <= kWordsBytes) return kWordsBytes;
  constexpr std::uint64_t kPageBytes = 4096, kManyBytes = 64 << 20;
  if (size_bytes <= kManyBytes) return std::bit_ceil(std::max(size_bytes, kPageBytes));
  return (size_bytes + kManyBytes - 1) / kManyBytes * kManyBytes;
}

}  // namespace

PinnedPool& PinnedPool::of_process() {
  static auto* const pool = new PinnedPool;  // at the process's end CUDA may have gone before
  return *pool;
}

const cuda::Driver& PinnedPool::lasting(const cuda::Driver& driver) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (driver_ == nullptr) driver_ = std::make_unique<const cuda::Driver>(driver);
  return *driver_;
}

PinnedPool::Block* PinnedPool::find(unsigned long long context, std::uint64_t least_bytes, std::uint64_t most_bytes) {
  Block* best = nullptr;
  for (Block& block : blocks_) {
    const std::uint64_t size_bytes = block.memory->size_bytes();
    const bool fits =
        block.is_free && block.context == context && size_bytes >= least_bytes && size_bytes <= most_bytes;
    if (fits && (best == nullptr || size_bytes < best->memory->size_bytes())) best = &block;
  }
  return best;
}

void PinnedPool::collect(const cuda::Driver& driver, unsigned long long context) {
  const cuda::RelaxedCapture relaxed(driver);
  for (Block& block : blocks_) {
    if (block.context != context || block.ends.empty()) continue;
    // Where a query fails the context is lost, and nothing runs in it.
    const bool is_used = std::any_of(block.ends.begin(), block.ends.end(), [](const cuda::Event& end) {
      const auto come = end.has_come();
      return come && !*come;
    });
    if (is_used) continue;
    block.ends.clear();
    block.is_free = true;
  }
}

PinnedPool::Block* PinnedPool::find_used(unsigned long long context, std::uint64_t least_bytes,
                                         const Streams& streams) {
  Block* best = nullptr;
  for (Block& block : blocks_) {
    const bool fits = block.context == context && block.memory->size_bytes() >= least_bytes && !block.ends.empty() &&
                      (streams.empty() || block.streams == streams);
    if (fits && (best == nullptr || block.memory->size_bytes() < best->memory->size_bytes())) best = &block;
  }
  return best;
}

Result<PinnedPool::Taken> PinnedPool::take(const cuda::Driver& driver, std::uint64_t size_bytes,
                                           const Streams& streams) {
  const auto context = driver.current_number();
  if (!context) return context.error();
  const cuda::Driver& own = lasting(driver);
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::uint64_t rounded = rounded_up(size_bytes);
  Block* best = streams.empty() ? nullptr : find_used(*context, size_bytes, streams);
  // A small one shall not take what is there for a large one.
  if (best == nullptr) best = find(*context, size_bytes, kLargerMost * rounded);
  if (best == nullptr) {
    collect(driver, *context);
    best = find(*context, size_bytes, kLargerMost * rounded);
  }
  if (best == nullptr) {
    const cuda::RelaxedCapture relaxed(driver);
    auto memory = cuda::PinnedMemory::allocate(own, rounded);
    if (memory) {
      best = &blocks_.emplace_back(Block{*context, true, std::make_unique<cuda::PinnedMemory>(std::move(*memory))});
    } else {
      if (size_bytes > kWordsBytes) best = find(*context, size_bytes, std::numeric_limits<std::uint64_t>::max());
      if (best == nullptr && !streams.empty()) best = find_used(*context, size_bytes, {});
      if (best == nullptr) return explained(memory.error(), size_bytes);
    }
  }
  best->is_free = false;
  return Taken{best->memory.get(), std::exchange(best->ends, {})};
}

Error PinnedPool::explained(Error error, std::uint64_t size_bytes) const {
  std::uint64_t used_bytes = 0;
  for (const Block& block : blocks_) used_bytes += block.is_free ? 0 : block.memory->size_bytes();
  error.text =
      "no pinned memory for " + counted(size_bytes, "byte") + ", beside " + counted(used_bytes, "byte") +
      " of calls whose streams have not come to their ends; wait for these, or make smaller calls: " + error.text;
  return error;
}

void PinnedPool::give_back(const cuda::PinnedMemory* memory, std::vector<cuda::Event> ends, Streams streams) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Block& block : blocks_) {
    if (block.memory.get() != memory) continue;
    block.is_free = ends.empty();
    block.ends = std::move(ends);
    block.streams = std::move(streams);
    return;
  }
}

Result<PinnedWord> PinnedPool::take_word(const cuda::Driver& driver) {
  constexpr std::uint64_t kBlockBytes = 4096, kWords = kBlockBytes / sizeof(std::uint32_t);
  const auto context = driver.current_number();
  if (!context) return context.error();
  const auto has_room = [&] {
    return std::find_if(words_.begin(), words_.end(),
                        [&](const Words& one) { return one.context == *context && one.taken < kWords; });
  };
  std::unique_lock<std::mutex> lock(mutex_);
  if (has_room() == words_.end()) {
    lock.unlock();
    const auto memory = take(driver, kBlockBytes);
    if (!memory) return memory.error();
    lock.lock();
    words_.push_back({*context, memory->memory, 0});
  }
  Words& words = *has_room();
  const std::uint64_t offset = words.taken++ * sizeof(std::uint32_t);
  return PinnedWord{reinterpret_cast<std::uint32_t*>(words.memory->data() + offset),
                    words.memory->device_address() + offset};
}

Result<PinnedBlock> PinnedBlock::take(const cuda::Driver& driver, std::uint64_t size_bytes,
                                      const PinnedPool::Streams& streams) {
  auto taken = PinnedPool::of_process().take(driver, size_bytes, streams);
  if (!taken) return taken.error();
  PinnedBlock block;
  block.taken_ = std::move(*taken);
  return block;
}

void PinnedBlock::give_back_after(std::vector<cuda::Event> ends, PinnedPool::Streams streams) {
  PinnedPool::of_process().give_back(std::exchange(taken_.memory, nullptr), std::move(ends), std::move(streams));
}

PinnedBlock::~PinnedBlock() {
  if (taken_.memory != nullptr) PinnedPool::of_process().give_back(taken_.memory, std::move(taken_.before));
}

}  // namespace meshbed::coll

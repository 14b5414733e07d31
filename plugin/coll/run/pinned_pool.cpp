#include "plugin/coll/run/pinned_pool.h"

#include <algorithm>
#include <utility>

#include "plugin/cuda/stream.h"

namespace meshbed::coll {

PinnedPool& PinnedPool::of_process() {
  static auto* const pool = new PinnedPool;  // at the process's end CUDA may have gone before
  return *pool;
}

Result<const cuda::PinnedMemory*> PinnedPool::take(const cuda::Driver& driver, std::uint64_t size_bytes) {
  const auto context = driver.current_number();
  if (!context) return context.error();
  const std::lock_guard<std::mutex> lock(mutex_);
  Block* best = nullptr;
  for (Block& block : blocks_) {
    const bool fits = block.is_free && block.context == *context && block.memory->size_bytes() >= size_bytes;
    if (fits && (best == nullptr || block.memory->size_bytes() < best->memory->size_bytes())) best = &block;
  }
  if (best == nullptr) {
    const cuda::RelaxedCapture relaxed(driver);
    if (driver_ == nullptr) driver_ = std::make_unique<const cuda::Driver>(driver);
    auto memory = cuda::PinnedMemory::allocate(*driver_, size_bytes);
    if (!memory) return memory.error();
    best = &blocks_.emplace_back(Block{*context, true, std::make_unique<cuda::PinnedMemory>(std::move(*memory))});
  }
  best->is_free = false;
  return best->memory.get();
}

void PinnedPool::give_back(const cuda::PinnedMemory* memory) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Block& block : blocks_) {
    if (block.memory.get() == memory) block.is_free = true;
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
    words_.push_back({*context, *memory, 0});
  }
  Words& words = *has_room();
  const std::uint64_t offset = words.taken++ * sizeof(std::uint32_t);
  return PinnedWord{reinterpret_cast<std::uint32_t*>(words.memory->data() + offset),
                    words.memory->device_address() + offset};
}

Result<PinnedBlock> PinnedBlock::take(const cuda::Driver& driver, std::uint64_t size_bytes) {
  const auto memory = PinnedPool::of_process().take(driver, size_bytes);
  if (!memory) return memory.error();
  PinnedBlock block;
  block.memory_ = *memory;
  return block;
}

PinnedBlock::~PinnedBlock() {
  if (memory_ != nullptr) PinnedPool::of_process().give_back(memory_);
}

}  // namespace meshbed::coll

#include "plugin/coll/run/pinned_pool.h"

#include <utility>

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

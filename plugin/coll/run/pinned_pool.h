#pragma once
// PinnedPool: pinned memory of communicators, which is reused and never returned to CUDA. cuMemFreeHost waits for all
// work of its context, and so for streams that a call of another communicator holds: a thread that aborts one
// communicator after the other would wait for the second one's peers.
//
// Streams may still use a block when its owner no longer does. The block is free when their events have come, which is
// checked when memory is taken next; no thread waits for them. A call in streams may take a block earlier, and lets its
// streams wait for the events. A block last used in the same streams is preferred: so a program that puts call after
// call into a stream needs no more memory than one call.

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/cuda/driver.h"
#include "plugin/cuda/memory.h"
#include "plugin/cuda/stream.h"

namespace meshbed::coll {

/// A word that a GPU's streams may wait for.
struct PinnedWord {
  std::uint32_t* at = nullptr;
  cuda::CUdeviceptr address = 0;  // where a GPU finds it
};

class PinnedPool {
 public:
  /// The pool of this copy of the library, until the process ends. Any thread.
  static PinnedPool& of_process();

  struct Taken {
    const cuda::PinnedMemory* memory = nullptr;
    std::vector<cuda::Event> before{};  // have to come first
  };
  using Streams = std::vector<cuda::CUstream>;
  /// At least so many bytes, allocated in the current context; what stood in it before is still there. The pool's.
  /// `streams`: that can wait for what comes before; none: nothing does.
  Result<Taken> take(const cuda::Driver& driver, std::uint64_t size_bytes, const Streams& streams = {});
  /// Returns memory to the pool, for the same context, once those events of those streams (made with lasting()) have
  /// come.
  void give_back(const cuda::PinnedMemory* memory, std::vector<cuda::Event> ends = {}, Streams streams = {});
  /// The same driver, for the process's life.
  const cuda::Driver& lasting(const cuda::Driver& driver);
  /// A word in the current context, for the process's life: no other call ever gets it.
  Result<PinnedWord> take_word(const cuda::Driver& driver);

 private:
  struct Block {
    unsigned long long context = 0;  // its number: no other context ever has it, and a context's end takes its memory
    bool is_free = false;
    std::unique_ptr<cuda::PinnedMemory> memory;
    std::vector<cuda::Event> ends{};  // it is free when they have come; none: its owner has it, or it is free
    Streams streams{};                // whose events they are
  };
  /// The smallest one whose events are those of the streams; or of any streams, where there are none. With mutex_ held.
  Block* find_used(unsigned long long context, std::uint64_t least_bytes, const Streams& streams);
  /// The smallest free one of at least so many bytes, and at most so many; nullptr: none. With mutex_ held.
  Block* find(unsigned long long context, std::uint64_t least_bytes, std::uint64_t most_bytes);
  /// Sees which events of blocks of the current context have come. With mutex_ held.
  void collect(const cuda::Driver& driver, unsigned long long context);
  /// There is no memory: and for how many bytes. With mutex_ held.
  Error explained(Error error, std::uint64_t size_bytes) const;

  struct Words {
    unsigned long long context = 0;
    const cuda::PinnedMemory* memory = nullptr;
    std::uint64_t taken = 0;
  };

  std::mutex mutex_;
  std::unique_ptr<const cuda::Driver> driver_;  // of all blocks: communicators, and their drivers, go before
  std::vector<Block> blocks_;
  std::vector<Words> words_;  // the last one of each context has room
};

/// A block for as long as this lives.
class PinnedBlock {
 public:
  static Result<PinnedBlock> take(const cuda::Driver& driver, std::uint64_t size_bytes,
                                  const PinnedPool::Streams& streams = {});
  PinnedBlock() = default;
  ~PinnedBlock();
  PinnedBlock(PinnedBlock&& other) noexcept { swap(other); }
  PinnedBlock& operator=(PinnedBlock&& other) noexcept {
    swap(other);
    return *this;
  }

  char* data() const { return memory() != nullptr ? memory()->data() : nullptr; }
  std::uint64_t size_bytes() const { return memory() != nullptr ? memory()->size_bytes() : 0; }
  /// Where a GPU finds it.
  cuda::CUdeviceptr device_address() const { return memory()->device_address(); }
  /// It stays when this goes.
  const cuda::PinnedMemory* memory() const { return taken_.memory; }
  /// The streams that it was taken for have to wait for these.
  const std::vector<cuda::Event>& before() const { return taken_.before; }
  /// It is no longer ours; the pool's when they have come.
  void give_back_after(std::vector<cuda::Event> ends, PinnedPool::Streams streams);
  /// Leaves the block without an owner.
  void give_up() { taken_.memory = nullptr; }

 private:
  void swap(PinnedBlock& other) { std::swap(taken_, other.taken_); }
  PinnedPool::Taken taken_;
};

}  // namespace meshbed::coll

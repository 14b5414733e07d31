#pragma once
// Where the parts of an MSCCL++ trigger stand in its two words. Standard library and numbers only, so that a CUDA
// source includes it too (functions with --expt-relaxed-constexpr). See fifo_trigger.h.

#include <cstdint>

#include "plugin/ring/include/meshbed/ring.h"

namespace meshbed::ring {

namespace fifo_type {
inline constexpr std::uint8_t kData = MESHBED_FIFO_DATA, kFlag = MESHBED_FIFO_FLAG, kSync = MESHBED_FIFO_SYNC;
}  // namespace fifo_type

struct FifoTrigger {
  std::uint32_t size_bytes = 0;
  std::uint32_t source_offset = 0, destination_offset = 0;
  std::uint16_t source_memory = 0, destination_memory = 0;  // 9 bits each
  std::uint8_t type = 0;                                    // fifo_type, or-ed
  std::uint16_t semaphore = 0;                              // 10 bits

  bool operator==(const FifoTrigger&) const = default;
};

namespace fifo_bits {
inline constexpr unsigned kSourceMemoryAt = 32, kDestinationMemoryAt = 41, kTypeAt = 50, kSemaphoreAt = 53;
inline constexpr std::uint64_t kMemoryMost = (1U << 9U) - 1, kTypeMost = 7, kSemaphoreMost = (1U << 10U) - 1;
}  // namespace fifo_bits

// Numbers that their bits hold.
constexpr std::uint64_t fifo_first_word(const FifoTrigger& what) {
  return meshbed_fifo_first(what.size_bytes, what.source_offset);
}
/// Without its commit bit.
constexpr std::uint64_t fifo_second_word(const FifoTrigger& what) {
  return meshbed_fifo_second(what.destination_offset, what.source_memory, what.destination_memory, what.type,
                             what.semaphore);
}

/// The commit bit of the lap that `position` is in.
constexpr std::uint64_t fifo_commit(std::uint64_t position, std::uint64_t depth) {
  return meshbed_fifo_commit(position, depth);
}

}  // namespace meshbed::ring

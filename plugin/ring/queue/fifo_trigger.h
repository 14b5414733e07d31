#pragma once
// The 16 bytes by which a GPU hands one operation to the host's proxy in MSCCL++'s port channel.
// Source: MSCCL++ 0.9.0, include/mscclpp/port_channel_device.hpp and fifo_device.hpp.
//
// Bit 63 of the second word is the commit: the parity of the lap that the trigger belongs to. A slot is never cleared;
// memory of zeros reads as empty, and a trigger of zeros is one.

#include <array>
#include <cstdint>

#include "plugin/base/result.h"

namespace meshbed::ring {

using FifoWords = std::array<std::uint64_t, 2>;

namespace fifo_type {
inline constexpr std::uint8_t kData = 1, kFlag = 2, kSync = 4;
}  // namespace fifo_type

struct FifoTrigger {
  std::uint32_t size_bytes = 0;
  std::uint32_t source_offset = 0, destination_offset = 0;
  std::uint16_t source_memory = 0, destination_memory = 0;  // 9 bits each
  std::uint8_t type = 0;                                    // fifo_type, or-ed
  std::uint16_t semaphore = 0;                              // 10 bits

  bool operator==(const FifoTrigger&) const = default;
};

/// The commit bit of the lap that `position` is in.
constexpr std::uint64_t fifo_commit(std::uint64_t position, std::uint64_t depth) {
  return ((position / depth & 1U) ^ 1U) << 63U;
}

/// Without its commit bit. Errors (kInvalidArgument): a number that its bits do not hold.
Result<FifoWords> encode_trigger(const FifoTrigger& what);
/// The commit bit does not count.
FifoTrigger decode_trigger(const FifoWords& words);

}  // namespace meshbed::ring

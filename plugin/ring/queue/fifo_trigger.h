#pragma once
// The 16 bytes by which a GPU hands one operation to the host's proxy in MSCCL++'s port channel.
// Source: MSCCL++ 0.9.0, include/mscclpp/port_channel_device.hpp and fifo_device.hpp.
//
// Bit 63 of the second word is the commit: the parity of the lap that the trigger belongs to. A slot is never cleared;
// memory of zeros reads as empty, and a trigger of zeros is one.

#include <array>
#include <cstdint>

#include "plugin/base/result.h"
#include "plugin/ring/queue/fifo_layout.h"

namespace meshbed::ring {

using FifoWords = std::array<std::uint64_t, 2>;

/// Without its commit bit. Errors (kInvalidArgument): a number that its bits do not hold.
Result<FifoWords> encode_trigger(const FifoTrigger& what);
/// The commit bit does not count.
FifoTrigger decode_trigger(const FifoWords& words);

}  // namespace meshbed::ring

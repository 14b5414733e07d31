#pragma once
// The clear-to-send ring, by which a receiver announces its buffers to a sender.
//
// It is in the sender's memory; the receiver RDMA-writes one entry for each part of a (grouped) receive. Entries are
// counted from 0 without end. Entry i is in slot i mod 256, but a group never wraps: its parts follow its first slot
// into an overhang. An entry is valid when its sequence is i + 1 (32 bits). The sender polls the sequence with an
// acquire load in plain memory; 32-byte aligned entries arrive whole.
//
// Sizes go back as the immediate value (groups of one) or as records next to it: u32 per part, same slots, in the
// receiver's memory. At most 256 entries are outstanding: 32 grouped receives of 8.

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace meshbed::net {

inline constexpr std::uint32_t kMaxGroup = 8;
inline constexpr std::uint32_t kRingEntries = 32 * kMaxGroup;
inline constexpr std::uint32_t kRingSlots = kRingEntries + kMaxGroup;  // with the overhang
/// Largest message: it fits an int of the ncclNet table and 32 bits on the wire, with room for the mark below.
inline constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{1} << 30U;
/// Immediate value in place of a size: the sender will not send, its message is longer than the receive.
inline constexpr std::uint32_t kRefusedSize = 0xffffffff;

struct alignas(32) ClearToSend {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t capacity_bytes = 0;
  std::int32_t tag = 0;
  std::uint16_t count = 0;     // parts in this group
  std::uint16_t position = 0;  // of this part
  std::uint32_t reserved = 0;
  std::uint32_t sequence = 0;  // last, because it shows that the others have arrived
};
static_assert(sizeof(ClearToSend) == 32 && offsetof(ClearToSend, sequence) == 28);
static_assert(std::endian::native == std::endian::little, "ring entries travel in host order");

inline std::uint32_t sequence_of(std::uint64_t entry) { return static_cast<std::uint32_t>(entry + 1); }
inline std::uint32_t slot_of(std::uint64_t entry) { return static_cast<std::uint32_t>(entry % kRingEntries); }
inline bool has_arrived(ClearToSend& slot, std::uint64_t entry) {
  return std::atomic_ref(slot.sequence).load(std::memory_order_acquire) == sequence_of(entry);
}

/// Both ends' shared memory: the ring, then a u32 size per slot.
inline constexpr std::size_t kSizesAt = kRingSlots * sizeof(ClearToSend);
inline constexpr std::size_t kRingBytes = kSizesAt + kRingSlots * sizeof(std::uint32_t);

/// Most rails of a connection, over which long messages are striped.
inline constexpr std::uint32_t kMaxRails = 6;
/// Set in a size: the message was striped over the QP link and all rails of its entry. It is complete when each rail
/// has brought an immediate value of its own.
inline constexpr std::uint32_t kStripedSize = 0x80000000;

/// Beside each clear-to-send entry, written before it: the memory's keys on the devices of the rails.
struct alignas(32) RailKeys {
  std::uint32_t rkeys[kMaxRails] = {};
  std::uint32_t rails = 0;     // bit per rail that both ends may use for this entry
  std::uint32_t sequence = 0;  // as the entry's
};
static_assert(sizeof(RailKeys) == 32 && kRingBytes % alignof(RailKeys) == 0);

/// After the ring of a connection with a cable to its peer.
inline constexpr std::size_t kRailKeysAt = kRingBytes;
inline constexpr std::size_t kRailedRingBytes = kRailKeysAt + kRingSlots * sizeof(RailKeys);

}  // namespace meshbed::net

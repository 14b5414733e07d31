#pragma once
// Pieces: how a message travels through relays. The sender cuts it into pieces and RDMA-writes each, with a header in
// front, into a slot of the next relay. The relay passes it on in the same form, and the last one writes the payload
// into the receiver's buffer. A relay returns slots by a counter that it writes into the sender's memory: credits for
// each hop, and a window for each circuit, so that circuits never wait for one another.
//
// Clear-to-sends travel the other way, unchanged, from ring to ring: the sender matches tags and sizes against the
// receiver's own entries as if it had a cable to it.

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "plugin/net/wire/ring.h"

namespace meshbed::net {

/// Small enough that three relays add 5 % to a message of 4 MiB, large enough that a piece costs little (CPU).
inline constexpr std::uint32_t kPieceBytes = std::uint32_t{64} << 10U;
inline constexpr std::uint32_t kPieceSlots = 16;
/// Header, and room up to a payload that begins on a line of 128 bytes.
inline constexpr std::uint32_t kPieceHeaderBytes = 64;
inline constexpr std::uint32_t kPieceStride = 128 + kPieceBytes;
inline constexpr std::uint32_t kPieceHeaderAt = 128 - kPieceHeaderBytes;
inline constexpr std::size_t kPieceWindowBytes = std::size_t{kPieceSlots} * kPieceStride;

enum PieceFlag : std::uint16_t {
  kPieceEndsMessage = 1,
  kPieceEndsGroup = 2,  // of more than one part: its sizes may be sent
  kPieceRefuses = 4,    // no message: it would be longer than the receive
};

struct alignas(kPieceHeaderBytes) PieceHeader {
  std::uint32_t magic = 0;
  std::uint16_t flags = 0;
  std::uint8_t hops = 0;       // relays passed
  std::uint8_t hop_limit = 0;  // cables at most
  std::uint64_t circuit = 0;
  std::uint64_t sequence = 0;  // of the piece, from 0
  std::uint64_t group = 0;     // first entry of the group of receives
  std::uint8_t part = 0;
  std::uint8_t parts = 0;
  std::uint16_t reserved = 0;
  std::uint32_t message_bytes = 0;
  std::uint32_t offset_bytes = 0;  // of the payload in the message
  std::uint32_t payload_bytes = 0;
  std::uint32_t padding[2] = {};
};
static_assert(sizeof(PieceHeader) == kPieceHeaderBytes && offsetof(PieceHeader, payload_bytes) == 44);
static_assert(std::endian::native == std::endian::little, "piece headers travel in host order");

inline constexpr std::uint32_t kPieceMagic = 0x4543504d;  // "MPCE"

/// nullptr, or what is wrong with a header that arrived as piece `sequence` of `circuit`.
const char* problem_of(const PieceHeader& header, std::uint64_t circuit, std::uint64_t sequence);

/// Two counters after a ring into which a relay writes clear-to-sends: the pieces that it has passed on, and the pieces
/// that are with the receiver, written at the end of each message. A message is complete for its sender only by the
/// second one, so that what a relay loses is sent again.
inline constexpr std::size_t kCreditsAt = (kRingBytes + 63) / 64 * 64;
inline constexpr std::size_t kDeliveredAt = kCreditsAt + 64;
inline constexpr std::size_t kRelayedRingBytes = kDeliveredAt + 64;
inline std::uint64_t load_counter(std::uint8_t* ring, std::size_t at) {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(ring + at)).load(std::memory_order_acquire);
}

/// A sender's view of the next relay's slots, without verbs: how many pieces may be sent, and into which slot.
class PieceWindow {
 public:
  explicit PieceWindow(std::uint64_t* credits) : credits_(credits) {}

  bool has_room() const { return room() > 0; }
  std::uint64_t room() const {
    return kPieceSlots - (sent_ - std::atomic_ref(*credits_).load(std::memory_order_acquire));
  }
  std::uint64_t sent() const { return sent_; }
  std::uint32_t next_slot() const { return static_cast<std::uint32_t>(sent_ % kPieceSlots); }
  void took_one() { ++sent_; }

 private:
  std::uint64_t* credits_;
  std::uint64_t sent_ = 0;
};

}  // namespace meshbed::net

#pragma once
// The datagrams by which nodes without a shared subnet find a chain of cables. On demand only: where every peer is a
// neighbour none is ever sent.
//
//   QUERY   broadcast on each of our subnets, and passed on by every node that hears it for the first time
//   ANSWER  back to the asker, hop by hop: who I am, my addresses, how much is in flight from each of them, and the
//           port at which I take circuits
// And those by which a receiver asks after its sender (liveness_check.h), when it hears nothing of it:
//   INQUIRY broadcast and passed on likewise: whose is the sending end of this session?
//   FOUND   back to the asker, hop by hop: mine
// And one, where there was any of these, that asks nothing (attendance.h):
//   LEAVE   broadcast and passed on likewise: my process ends, and connects to nobody any more
//
// Layout, big-endian:
//   0  magic "MSHQ" u32     8  asker's query id u64     24  process u32       32  addresses, as in the handle:
//   4  version u8           16 node identity u64        28  circuit port u16      nic u8 (| 0x80: IPv6), prefix u8,
//   5  type u8 (1 to 5)        (QUERY: the asker)       30  addresses u8          4 or 16 bytes
//   6  hops travelled u8 (back: left to go)             31  zero u8           end  checksum u32 (FNV-1a)
//   7  hops allowed u8                                                             in flight u32, in KiB
// INQUIRY and FOUND have process, port and addresses 0, and at 32 the session's number u64. LEAVE has its checksum at
// 28: as long as the END of a circuit (wire.h), it is there as soon, and a relay that waits for both ends no later. A
// datagram that is not exactly this is dropped: anybody may send to a UDP port.

#include <cstdint>
#include <span>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/net/process/peer_address.h"

namespace meshbed::net {

inline constexpr std::uint8_t kDiscoveryMessageVersion = 2;
/// Fits every MTU from 1500 on; 62 IPv6 addresses.
inline constexpr std::size_t kDiscoveryMessageLargestBytes = 1400;

enum class DiscoveryMessageType : std::uint8_t { kQuery = 1, kAnswer = 2, kInquiry = 3, kFound = 4, kLeave = 5 };

/// INQUIRY, FOUND: it is about a session.
constexpr bool has_session(DiscoveryMessageType type) {
  return type == DiscoveryMessageType::kInquiry || type == DiscoveryMessageType::kFound;
}

/// To everybody, each of whom passes it on; the others go back to an asker.
constexpr bool goes_round(DiscoveryMessageType type) {
  return type != DiscoveryMessageType::kAnswer && type != DiscoveryMessageType::kFound;
}

struct DiscoveryMessage {
  DiscoveryMessageType type = DiscoveryMessageType::kQuery;
  std::uint8_t hops = 0;
  std::uint8_t hop_limit = 0;
  std::uint64_t query = 0;
  std::uint64_t node = 0;
  // ANSWER, and `process` in a QUERY and a LEAVE too:
  std::uint32_t process = 0;
  std::uint16_t circuit_port = 0;
  std::vector<PeerAddress> addresses;
  /// From the port of each of them, by this process; whole KiB, 4 TiB at most. Shorter than `addresses`: 0.
  std::vector<std::uint64_t> in_flight_bytes{};
  std::uint64_t session = 0;  // INQUIRY, FOUND
  bool operator==(const DiscoveryMessage&) const = default;
};

/// What does not fit is left out.
std::size_t encode_discovery_message(const DiscoveryMessage& discovery_message,
                                     std::span<std::uint8_t, kDiscoveryMessageLargestBytes> target);
Result<DiscoveryMessage> decode_discovery_message(std::span<const std::uint8_t> source);

}  // namespace meshbed::net

#pragma once
// The datagrams by which nodes without a shared subnet find a chain of cables. They are sent on demand only: if every
// peer is a neighbour, none is sent.
//
// clang-format off
//   QUERY    broadcast on each of our subnets, and passed on by every node that receives it for the first time
//   ANSWER   back to the asker, hop by hop: the node, its addresses with the bytes in flight from each, and the port for
//            circuits
// By these a receiver looks for its silent sender (liveness_check.h):
//   INQUIRY  broadcast and passed on likewise: which process has the sending end of this session?
//   FOUND    back to the asker, hop by hop: this one
// By this a process that was ever queried announces its end (attendance.h):
//   LEAVE    broadcast and passed on likewise: the process ends and makes no more connections
//
// Layout of a QUERY or ANSWER: big-endian, sizes in bytes.
//   offset  size  name           meaning
//        0     4  magic          "MSHQ"
//        4     1  version        2
//        5     1  type           1: QUERY, 2: ANSWER, 3: INQUIRY, 4: FOUND, 5: LEAVE
//        6     1  hops           hops travelled; on the way back: hops left
//        7     1  hop_limit      hops allowed
//        8     8  query          the asker's number of the query
//       16     8  node           identity of the sender's node; QUERY: the asker's
//       24     4  process        number of the process
//       28     2  circuit_port   TCP port for circuits
//       30     1  count          number of addresses
//       31     1  zero           0
//       32     *  addresses      for each: see peer_address.h, then its bytes in flight in KiB (4)
//       -4     4  checksum       FNV-1a over all bytes before it
// Layout of an INQUIRY or FOUND from byte 24 on:
//   offset  size  name           meaning
//       24     8  zero           0
//       32     8  session        number of the session
//       40     4  checksum       FNV-1a over all bytes before it
// Layout of a LEAVE from byte 24 on:
//   offset  size  name           meaning
//       24     4  process        number of the process
//       28     4  checksum       FNV-1a over all bytes before it
// clang-format on
// A LEAVE is as long as the END of a circuit (wire.h), so that both arrive at the same time and a relay that waits for
// both ends no later. A datagram that does not match its layout is dropped: any host may send to a UDP port.

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

/// INQUIRY and FOUND contain a session.
constexpr bool has_session(DiscoveryMessageType type) {
  return type == DiscoveryMessageType::kInquiry || type == DiscoveryMessageType::kFound;
}

/// Broadcast and passed on by every node; the other types go back to an asker.
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
  /// Bytes that this process has in flight from each of `addresses`; whole KiB, 4 TiB at most; missing ones are 0.
  std::vector<std::uint64_t> in_flight_bytes{};
  std::uint64_t session = 0;  // INQUIRY, FOUND
  bool operator==(const DiscoveryMessage&) const = default;
};

/// Addresses that do not fit are left out.
std::size_t encode_discovery_message(const DiscoveryMessage& discovery_message,
                                     std::span<std::uint8_t, kDiscoveryMessageLargestBytes> target);
Result<DiscoveryMessage> decode_discovery_message(std::span<const std::uint8_t> source);

}  // namespace meshbed::net

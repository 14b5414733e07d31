#pragma once
// The messages of the handshake on the control connection.
//
// clang-format off
// In order:
//   REQUEST         connecting -> listening  the connecting end and its clear-to-send ring
//   REPLY           listening -> connecting  the listening end, the path MTU for both, and its size records
//   READY           connecting -> listening  the connecting queue pair receives: the peer may write
//   REFUSE          listening -> connecting  instead of REPLY, with the reason as text
// Through relays (piece.h), with one control connection for each hop, which stays open as long as the circuit:
//   ROUTE           connecting -> relay      before REQUEST: the rest of the path, and the handle at its end
//   END             connecting -> relay      the number of pieces that were sent: deliver them, then close
//                   receiver -> relay        all entries below this one were served; the receiver has closed
//   REFUSE          relay -> connecting      also later: why the circuit broke
// After a connection lost its QP link (resumption.h), to the service port of the receiver's process, with the session's
// number as the cookie:
//   RESUME          sending -> receiving     like REQUEST: the new end
//   RESUMED         receiving -> sending     like REPLY, with the number of served clear-to-send entries; READY follows.
//                                            Relays send it instead of REPLY
//   GONE            receiving -> sending     instead of RESUMED: the connection has ended, with the reason as text and
//                                            the number of served entries
// To add a rail to a connection (rail_layer.h), to the same port with the same cookie; READY follows:
//   RAIL            sending -> receiving     like REQUEST: the end of the rail, and the QP link that it belongs to
//   RAILED          receiving -> sending     like REPLY; or REFUSE, or GONE
// When a receiver lost its path and its sender is silent (liveness_check.h), to the service port of the sender's
// process, with the session's number as the cookie:
//   LIVENESS_CHECK  receiving -> sending     does the connection still exist?
//   THERE           sending -> receiving     yes; or GONE
// When the receiving end of a QP link has another address or GID (address_notifier.h), likewise:
//   MOVED           receiving -> sending     the end, with its present address; THERE or GONE follows
// For connections over TCP (tcp_connection.h), whose data follow on the same connection after READY:
//   TCP_REQUEST     connecting -> listening  the connecting end
//   TCP_REPLY       listening -> connecting  the listening end
//
// Layout of every message: big-endian, sizes in bytes. READY, LIVENESS_CHECK and THERE consist of it alone.
//   offset  size  name            meaning
//        0     4  magic           "MSHW"
//        4     2  version         4
//        6     2  type            WireType
//        8     4  length          of the whole message
//       12     4  flags           0
//       16     8  cookie          the listener's, the circuit's or the session's number
// Layout of an end: REQUEST, REPLY, RESUME, RAILED and MOVED consist of the header and this.
//   offset  size  name            meaning
//       24     4  qp_number       24 bits, not 0
//       28     4  psn             24 bits
//       32    16  gid             GID of the end
//       48     1  gid_type        1: RoCE v1, 2: RoCE v2
//       49     1  mtu             ibv_mtu
//       50     1  max_recvs       grouped receives, 1 to 8
//       51     1  family          of the address: 4 or 6
//       52     1  prefix          prefix length of the address
//       53     1  wants_notice    1: clear-to-sends come with an immediate value
//       54     2  service_port    TCP port of the process' service
//       56    16  address         4 or 16 bytes, then zeros
//       72     8  memory_address  of the ring or the size records
//       80     4  memory_rkey     of that memory
//       84     4  memory_entries  entries of the ring, or of a relay's window
//       88     8  node            identity of the node
//       96    28  nic             device name, then zeros
//      124     4  lane_qp_number  second queue pair, 24 bits; 0: none
// Layout of RESUMED, after its end:
//   offset  size  name            meaning
//      128     8  served          all entries below it are served
//      136     8  session         the receiver's session
//      144     2  session_port    TCP port at which it can be resumed
//      146     6  zero            0
// Layout of RAIL, after its end:
//   offset  size  name            meaning
//      128     1  number          number of the rail, 0 to 5
//      129     3  zero            0
//      132     4  sender_qp_link  queue pair of the QP link at the sender
// Layout of REFUSE and GONE, after the header; REFUSE ends before `served`:
//   offset  size  name            meaning
//       24   488  reason          text, then zeros
//      512     8  served          all entries below it are served
// Layout of ROUTE, after the header:
//   offset  size  name            meaning
//       24     8  origin          identity of the sender's node
//       32     1  hop             relays passed, the receiving one included
//       33     1  hop_limit       most cables from sender to receiver
//       34     1  count           relays that follow
//       35     1  resumes         1: the handle's port and cookie are those of RESUME
//       36   128  handle          of the receiver (handle.h)
//      164     *  relays          for each its node (8), its port (2) and its address (peer_address.h), then zeros
// Layout of END, after the header:
//   offset  size  name            meaning
//       24     8  pieces          number of pieces, or of served entries
// Layout of TCP_REQUEST and TCP_REPLY, after the header:
//   offset  size  name            meaning
//       24     8  node            identity of the node
//       32    28  netdev          network interface, then zeros
//       60     4  zero            0
// clang-format on

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/net/process/address.h"
#include "plugin/net/wire/handle.h"
#include "plugin/net/wire/neighbour_map.h"
#include "plugin/verbs/gid.h"

namespace meshbed::net {

inline constexpr std::uint16_t kWireVersion = 4;
inline constexpr std::size_t kWireHeaderBytes = 24;
inline constexpr std::size_t kWireEndBytes = 128;  // REQUEST and REPLY, with header
inline constexpr std::size_t kWireResumedBytes = kWireEndBytes + 24;
inline constexpr std::size_t kWireRailBytes = kWireEndBytes + 8;
inline constexpr std::size_t kWireRefuseBytes = 512;  // with header
inline constexpr std::size_t kWireGoneBytes = kWireRefuseBytes + 8;
inline constexpr std::size_t kWireRouteBytes = 512;  // with header
inline constexpr std::size_t kWireNumberBytes = 32;  // END, with header
inline constexpr std::size_t kWireTcpBytes = 64;     // TCP_REQUEST and TCP_REPLY, with header
inline constexpr std::size_t kWireLargestBytes = kWireGoneBytes;
inline constexpr std::size_t kWireHopsMax = 8;

enum class WireType : std::uint16_t {
  kRequest = 1,
  kReply = 2,
  kReady = 3,
  kRefuse = 4,
  kRoute = 5,
  kEnd = 6,
  kResume,
  kResumed,
  kGone,
  kRail,
  kRailed,
  kTcpRequest,
  kTcpReply,
  kLivenessCheck,
  kThere,
  kMoved
};

/// One end of a connection, as described to the other end.
struct WireEnd {
  std::uint32_t qp_number = 0;       // 24 bits, not 0
  std::uint32_t psn = 0;             // 24 bits
  std::uint32_t lane_qp_number = 0;  // through relays: of the queue pair for credits; else 0
  verbs::Gid gid{};
  verbs::GidType gid_type = verbs::GidType::kRoceV2;
  std::uint8_t mtu = 0;              // ibv_mtu; in REPLY the one that both use
  std::uint8_t max_recvs = 0;        // grouped receives, 1..8
  IpPrefix address;                  // of the NIC
  std::uint64_t memory_address = 0;  // REQUEST: clear-to-send ring; REPLY: size records
  std::uint32_t memory_rkey = 0;
  std::uint32_t memory_entries = 0;  // of the ring; both must agree. A relay's REPLY: of its window
  std::uint16_t service_port = 0;    // TCP, of its process: for RESUME and the like (resumption.h)
  bool wants_notice = false;         // it sleeps: clear-to-sends must come with an immediate value
  std::uint64_t node = 0;
  std::string nic;  // device name, at most 27 characters
  /// Compares two ends on one node.
  bool is_same_queue_pair(const WireEnd& other) const { return qp_number == other.qp_number && nic == other.nic; }
  bool operator==(const WireEnd&) const = default;
};

/// The rest of a path, for a relay.
struct WireRoute {
  std::uint64_t origin = 0;    // node identity of the sender
  std::uint8_t hop = 0;        // relays passed, this one included
  std::uint8_t hop_limit = 0;  // cables at most
  std::vector<Hop> onward;     // the relays after this one, the nearest first
  std::array<std::uint8_t, kHandleBytes> handle{};
  bool resumes = false;  // the handle's port and cookie are those of RESUME
  bool operator==(const WireRoute&) const = default;
};

/// A rail beside a QP link.
struct WireRail {
  std::uint8_t number = 0;           // below kMaxRails
  std::uint32_t sender_qp_link = 0;  // queue pair of the QP link, at the sender
  bool operator==(const WireRail&) const = default;
};

/// One end of a connection over TCP.
struct WireTcpEnd {
  std::uint64_t node = 0;
  std::string netdev;  // network interface, at most 27 characters
  bool operator==(const WireTcpEnd&) const = default;
};

struct WireMessage {
  WireType type = WireType::kReady;
  std::uint64_t cookie = 0;
  WireEnd end;               // REQUEST, REPLY, RESUME, RESUMED, RAIL, RAILED, MOVED
  std::string reason;        // REFUSE, GONE
  WireRoute route{};         // ROUTE
  std::uint64_t pieces = 0;  // END
  // RESUMED:
  std::uint64_t served = 0;   // all entries below are served; also in GONE, where it is a lower bound
  std::uint64_t session = 0;  // the receiver's, with its port, for a sender that knows only relays
  std::uint16_t session_port = 0;
  WireRail rail{};   // RAIL
  WireTcpEnd tcp{};  // TCP_REQUEST, TCP_REPLY
};

/// An error of the other end, or in a message of it.
Error handshake_error(std::string text);

/// Writes the message; returns its length. `target` holds at least kWireLargestBytes.
std::size_t encode_message(const WireMessage& message, std::span<std::uint8_t> target);
/// The length of the message with this header; an error if it is not one of ours.
Result<std::size_t> message_bytes(std::span<const std::uint8_t, kWireHeaderBytes> header);
/// `source` is exactly one message. Every field is checked.
Result<WireMessage> decode_message(std::span<const std::uint8_t> source);

}  // namespace meshbed::net

#pragma once
// The messages of the handshake on the control connection, in order:
//   REQUEST  connecting -> listening   who I am and where my clear-to-send ring is
//   REPLY    listening -> connecting   who I am, the path MTU for both, where my size records are
//   READY    connecting -> listening   my queue pair receives: you may write
//   REFUSE   listening -> connecting   instead of REPLY, with the reason as text
// Through relays (piece.h), with one control connection a hop, which stays open as long as the circuit:
//   ROUTE    connecting -> relay       before REQUEST: which way to go on, and the handle at its end
//   END      connecting -> relay       this many pieces were sent; deliver them, then close
//            receiver -> relay         everything up to this entry was served; it has closed, and waits for nothing
//   REFUSE   relay -> connecting       also later: why the circuit broke
// When a connection lost its QP link (resumption.h), to the service port of the receiver's process; the cookie is the
// session's:
//   RESUME   sending -> receiving      like REQUEST: my new end
//   RESUMED  receiving -> sending      like REPLY, and which clear-to-send entries have been served; READY follows. It
//                                      is also what relays answer instead of REPLY
//   GONE     receiving -> sending      instead of RESUMED: there is no such connection any more, with the reason as
//   text, and what it had served
// When a connection gets one more way beside its QP link (rail_layer.h), to the same port, with the session's cookie;
// READY follows:
//   RAIL     sending -> receiving      like REQUEST: my end of it, and which QP link it lies beside
//   RAILED   receiving -> sending      like REPLY; or REFUSE, or GONE
// When a receiver that lost its way hears nothing of its sender (liveness_check.h), to the service port of the sender's
// process, with the session's cookie:
//   KNOCK    receiving -> sending      is the connection still there?
//   THERE    sending -> receiving      yes; or GONE
// When the receiving end of a QP link has another address or GID (address_notifier.h), likewise:
//   MOVED    receiving -> sending      which end it was, and its address now; THERE or GONE follows
// For connections over TCP (tcp_connection.h), whose data follow on the same connection; READY stands in between:
//   TCP_REQUEST  connecting -> listening   who I am
//   TCP_REPLY    listening -> connecting   who I am
// Fixed layouts, big-endian, each with magic, version, type, its own length and the listener's cookie.

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

/// One end of a connection, as the other one must know it.
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
  std::uint16_t service_port = 0;    // TCP, of its process: where the connection is taken up again (resumption.h)
  bool wants_notice = false;         // it sleeps: clear-to-sends shall come with an immediate value
  std::uint64_t node = 0;
  std::string nic;  // device name, at most 27 characters
  /// Of two ends on one node.
  bool is_same_queue_pair(const WireEnd& other) const { return qp_number == other.qp_number && nic == other.nic; }
  bool operator==(const WireEnd&) const = default;
};

/// What a relay needs to go on.
struct WireRoute {
  std::uint64_t origin = 0;    // node identity of the sender
  std::uint8_t hop = 0;        // relays passed, this one included
  std::uint8_t hop_limit = 0;  // cables at most
  std::vector<Hop> onward;     // the relays after this one, the nearest first
  std::array<std::uint8_t, kHandleBytes> handle{};
  bool resumes = false;  // the handle's port and cookie are those of RESUME
  bool operator==(const WireRoute&) const = default;
};

/// One more way beside a QP link.
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
  std::uint64_t served = 0;   // all entries below are; GONE: at least
  std::uint64_t session = 0;  // the receiver's, and where it is taken up again; for a sender that only knows relays
  std::uint16_t session_port = 0;
  WireRail rail{};   // RAIL
  WireTcpEnd tcp{};  // TCP_REQUEST, TCP_REPLY
};

/// What is wrong with the one at the other end, or with what it sent.
Error handshake_error(std::string text);

/// Writes the message; returns its length. `target` holds at least kWireLargestBytes.
std::size_t encode_message(const WireMessage& message, std::span<std::uint8_t> target);
/// The whole length that a message with this header has; an error where it is none of ours.
Result<std::size_t> message_bytes(std::span<const std::uint8_t, kWireHeaderBytes> header);
/// `source` is exactly one message. Every field is checked.
Result<WireMessage> decode_message(std::span<const std::uint8_t> source);

}  // namespace meshbed::net

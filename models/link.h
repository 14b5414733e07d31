#pragma once
// Link: what a RoCE v2 message costs on an Ethernet wire.
//
// Nomenclature: payload - the bytes of the verbs message; PMTU - the queue pair's path MTU; packet - at most PMTU bytes
// of payload with headers; wire bytes - everything that occupies the cable, preamble and inter-frame gap included.
// Cost: wire_bytes(S) = S + packets(S) * per-packet overhead + extended headers; O(1).

#include <cstdint>

#include "plugin/base/units.h"

namespace meshbed::models {

/// Ethernet preamble + start delimiter 8, header 14, FCS 4, inter-frame gap 12 (IEEE 802.3).
inline constexpr std::uint32_t kEthernetOverheadBytes = 8 + 14 + 4 + 12;
/// RoCE v2 over IPv4: IPv4 20, UDP 8; base transport header 12, invariant CRC 4 (InfiniBand Architecture, Annex A17
/// RoCEv2). 82 bytes; over IPv6, and of RoCE v1, see packet_headers_bytes (lan/frame.h).
inline constexpr std::uint32_t kRoceV2PacketOverheadBytes = kEthernetOverheadBytes + 20 + 8 + 12 + 4;
inline constexpr std::uint32_t kRethBytes = 16;    // RDMA extended header: first packet of a write, read request
inline constexpr std::uint32_t kImmBytes = 4;      // immediate data
inline constexpr std::uint32_t kAethBytes = 4;     // acknowledgement header
inline constexpr std::uint32_t kAtomicBytes = 28;  // atomic extended header
inline constexpr std::uint32_t kVlanTagBytes = 4;  // IEEE 802.1Q, in each packet of a VLAN

/// Packets of a message: a zero-size message is still one packet.
constexpr std::uint64_t packets(std::uint64_t payload_bytes, std::uint32_t pmtu_bytes) {
  return payload_bytes == 0 ? 1 : (payload_bytes + pmtu_bytes - 1) / pmtu_bytes;
}

constexpr std::uint64_t wire_bytes(std::uint64_t payload_bytes, std::uint32_t pmtu_bytes, std::uint32_t extended_bytes,
                                   std::uint32_t packet_overhead_bytes = kRoceV2PacketOverheadBytes) {
  return payload_bytes + packets(payload_bytes, pmtu_bytes) * packet_overhead_bytes + extended_bytes;
}

}  // namespace meshbed::models

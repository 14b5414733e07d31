#pragma once
// Frame: how large the packets of a RoCE message are where something forwards only frames up to a size.
//
// Nomenclature: MTU - of a netdev or a switch's port, bytes of payload that an Ethernet frame may have there, as
// `ip link` counts them: IP header and all behind it; neither the Ethernet header and FCS nor a VLAN tag. A switch
// drops what is larger without a word: there is no router that could answer with an ICMP message, and RoCE packets are
// not fragmented. So a message of one small packet passes and one of full packets never does, which its sender sees as
// "transport retry counter exceeded".

#include <cstdint>
#include <vector>

#include "models/cluster.h"
#include "models/link.h"
#include "models/topology.h"

namespace meshbed::models {

/// What a RoCE v2 packet has in its frame beside the payload: IPv4 20 or IPv6 40, UDP 8, base transport header 12,
/// invariant CRC 4; RoCE v1: global route header 40 in the place of IP and UDP (sources: models/link.h).
constexpr std::uint32_t packet_headers_bytes(GidType type, Family family) {
  constexpr std::uint32_t kTransport = 12 + 4;
  if (type == GidType::kRoceV1) return 40 + kTransport;
  return (family == Family::kIpv4 ? 20U : 40U) + 8 + kTransport;
}

/// The packets of one message, or of the response to a read. The first and the last have extended headers of their own.
struct PacketTrain {
  std::uint64_t payload_bytes = 0;
  std::uint32_t pmtu_bytes = 4096;
  std::uint32_t headers_bytes = 0;  // of each, packet_headers_bytes()
  std::uint32_t first_bytes = 0, last_bytes = 0;

  constexpr std::uint32_t count() const { return static_cast<std::uint32_t>(packets(payload_bytes, pmtu_bytes)); }
  constexpr std::uint64_t frame_bytes(std::uint32_t packet) const {
    const bool last = packet + 1 == count();
    const std::uint64_t payload = last ? payload_bytes - std::uint64_t{packet} * pmtu_bytes : pmtu_bytes;
    return headers_bytes + payload + (packet == 0 ? first_bytes : 0) + (last ? last_bytes : 0);
  }
};

/// The first packet from `from` on that passes an MTU of `mtu_bytes` (`passes`: true) or does not (false); count()
/// where there is none. O(1): those between the first and the last are all alike.
constexpr std::uint32_t next_packet(const PacketTrain& train, std::uint32_t from, std::uint32_t mtu_bytes,
                                    bool passes) {
  const std::uint32_t count = train.count();
  const auto is_such = [&](std::uint32_t packet) { return (train.frame_bytes(packet) <= mtu_bytes) == passes; };
  if (from >= count) return count;
  if (is_such(from)) return from;
  if (from + 1 < count && is_such(from + 1)) return from + 1;
  return is_such(count - 1) ? count - 1 : count;
}

/// Of the switch's port that `nic` is plugged into; 0: any frame passes.
inline std::uint32_t switch_port_mtu_bytes(const Switch& box, const Nic& nic) {
  return nic.switch_mtu_bytes != 0 ? nic.switch_mtu_bytes : box.mtu_bytes;
}

/// The largest payload of a frame that gets from `a` to `b` through `box`; 0: any.
inline std::uint32_t forwarded_bytes(const Switch& box, const Nic& a, const Nic& b) {
  const std::uint32_t in_bytes = switch_port_mtu_bytes(box, a), out_bytes = switch_port_mtu_bytes(box, b);
  return in_bytes == 0 || (out_bytes != 0 && out_bytes < in_bytes) ? out_bytes : in_bytes;
}

/// Ports of one switch that have one MTU, too small for what is sent through them.
struct SmallSwitchMtu {
  int switch_index = -1;
  std::uint32_t mtu_bytes = 0;
  bool of_switch = true;             // else of these ports alone (Nic::switch_mtu_bytes)
  bool rdma_is_lost = true;          // full RDMA packets; else they pass, and only full TCP segments do not
  std::vector<PortRef> ports;        // ascending
  std::uint32_t path_mtu_bytes = 0;  // the largest of RDMA there
  std::uint32_t needed_bytes = 0;    // an MTU that lets everything pass
};
/// Two ports of one segment, on one switch or with a router between, use the smaller of their active MTUs for RDMA, of
/// their netdevs' for TCP. In order of the switches; of one, its own MTU before those of single ports, lost RDMA before
/// lost TCP.
std::vector<SmallSwitchMtu> small_switch_mtus(const Cluster& cluster, const Topology& topology);

}  // namespace meshbed::models

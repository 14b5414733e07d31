#pragma once
// Identity: hardware addresses that are not in a scenario file, derived from a port's place in the cluster.
// sysfs (here) and verbs (ibv_get_device_guid) must agree on them.

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "models/cluster.h"

namespace meshbed::sim {

using MacAddress = std::array<std::uint8_t, 6>;

/// Locally administered: 02:4d, then the node and the NIC index, 16 bits each.
constexpr MacAddress mac_of(models::PortRef port) {
  const auto node = static_cast<std::uint32_t>(port.node);
  const auto nic = static_cast<std::uint32_t>(port.nic);
  return {0x02,
          0x4d,
          static_cast<std::uint8_t>(node >> 8U),
          static_cast<std::uint8_t>(node),
          static_cast<std::uint8_t>(nic >> 8U),
          static_cast<std::uint8_t>(nic)};
}

/// "02:4d:00:01:00:00"
inline std::string mac_text(const MacAddress& mac) {
  return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
}

/// Node GUID of the RDMA device in host order: the MAC address as EUI-64 (ff:fe in the middle, universal bit flipped),
/// as RoCE drivers derive it. ibv_device's and sysfs' GUIDs are this in network order.
constexpr std::uint64_t node_guid_of(models::PortRef port) {
  const MacAddress mac = mac_of(port);
  std::uint64_t guid = static_cast<std::uint64_t>(mac[0] ^ 0x02U);
  for (const std::uint8_t byte : {mac[1], mac[2], std::uint8_t{0xff}, std::uint8_t{0xfe}, mac[3], mac[4], mac[5]}) {
    guid = (guid << 8U) | byte;
  }
  return guid;
}

/// Interface indices of a node: 1 is the loopback interface, then the NICs in order, then the management port.
constexpr unsigned interface_index_of(models::PortRef port) { return static_cast<unsigned>(port.nic) + 2; }

/// VLAN interfaces come behind them, in the order of their NICs; `nics`: of the node.
constexpr unsigned vlan_interface_index_of(models::PortRef port, std::size_t nics) {
  return interface_index_of({port.node, static_cast<int>(nics) + 1 + port.nic});
}

/// Length of the port's GID table. Linux tables are longer than their content; programs probe a few entries past it.
inline std::uint32_t gid_table_length(const models::Nic& nic) {
  constexpr std::uint32_t kMin = 16;
  const std::uint32_t used = nic.gids.empty() ? 0 : nic.gids.back().index + 1;
  return used > kMin ? used : kMin;
}

}  // namespace meshbed::sim

#pragma once
// Identity: hardware addresses that are not in a scenario file, derived from a port's place in the cluster.
// sysfs (here) and verbs (ibv_get_device_guid) must agree on them.

#include <array>
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

}  // namespace meshbed::sim

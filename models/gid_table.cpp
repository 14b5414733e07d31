#include "models/gid_table.h"

namespace meshbed::models {

IpAddress link_local_address(PortRef port) {
  const auto node = static_cast<std::uint32_t>(port.node);
  const auto nic = static_cast<std::uint32_t>(port.nic);
  IpAddress address;
  address.family = IpFamily::kIpv6;
  // EUI-64 (RFC 4291, appendix A): ff:fe between the halves of 02:4d:NN:NN:II:II, universal bit flipped.
  address.bytes = {0xfe,
                   0x80,
                   0,
                   0,
                   0,
                   0,
                   0,
                   0,
                   0x00,
                   0x4d,
                   static_cast<std::uint8_t>(node >> 8U),
                   0xff,
                   0xfe,
                   static_cast<std::uint8_t>(node),
                   static_cast<std::uint8_t>(nic >> 8U),
                   static_cast<std::uint8_t>(nic)};
  return address;
}

std::vector<GidEntry> linux_gid_table(PortRef port, const std::vector<IpPrefix>& addresses) {
  std::vector<GidEntry> table;
  table.reserve(2 * (addresses.size() + 1));
  const auto append = [&table](const IpAddress& address) {
    for (const GidType type : {GidType::kRoceV1, GidType::kRoceV2}) {
      table.push_back({static_cast<std::uint32_t>(table.size()), type, gid_of(address)});
    }
  };
  append(link_local_address(port));
  for (const auto& prefix : addresses) append(prefix.address);
  return table;
}

}  // namespace meshbed::models

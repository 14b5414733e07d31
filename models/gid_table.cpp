#include "models/gid_table.h"

#include <algorithm>
#include <set>

namespace meshbed::models {

IpAddress link_local_address(PortRef port) {
  const auto node = static_cast<std::uint32_t>(port.node);
  const auto nic = static_cast<std::uint32_t>(port.nic);
  IpAddress address;
  address.family = Family::kIpv6;
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

std::vector<GidEntry> linux_gid_table(PortRef port, const std::vector<IpPrefix>& addresses, std::uint16_t vlan) {
  std::vector<GidEntry> table;
  table.reserve(2 * (addresses.size() + 2));
  const auto append = [&table](const IpAddress& address, std::uint16_t of_vlan) {
    for (const GidType type : {GidType::kRoceV1, GidType::kRoceV2}) {
      table.push_back({static_cast<std::uint32_t>(table.size()), type, gid_of(address), of_vlan});
    }
  };
  append(link_local_address(port), 0);
  if (vlan != 0) append(link_local_address(port), vlan);
  for (const auto& prefix : addresses) append(prefix.address, vlan);
  return table;
}

std::vector<GidEntry> exchanged_gids(const std::vector<GidEntry>& table, const IpAddress& from, const IpAddress& to) {
  std::vector<GidEntry> result;
  std::vector<GidEntry> gone;
  std::set<std::uint32_t> taken;
  for (const GidEntry& entry : table) {
    taken.insert(entry.index);
    if (entry.gid == gid_of(from)) {
      gone.push_back(entry);
    } else {
      result.push_back(entry);
    }
  }
  for (const GidEntry& entry : gone) {
    std::uint32_t index = 0;
    while (taken.count(index) > 0) ++index;
    taken.insert(index);
    result.push_back({index, entry.type, gid_of(to), entry.vlan});
  }
  std::sort(result.begin(), result.end(),
            [](const GidEntry& left, const GidEntry& right) { return left.index < right.index; });
  return result;
}

}  // namespace meshbed::models

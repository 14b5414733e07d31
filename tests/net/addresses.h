#pragma once
// Short spellings for addresses and NICs in tests.

#include <arpa/inet.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "plugin/net/process/address.h"
#include "plugin/net/process/nic.h"
#include "plugin/net/wire/handle.h"

namespace meshbed::test {

/// "192.168.100.1/24" or "fd00::1/64".
inline IpPrefix prefix(const std::string& text) {
  const std::size_t slash = text.find('/');
  const std::string address = text.substr(0, slash);
  IpPrefix result;
  const bool ipv6 = address.find(':') != std::string::npos;
  result.address.family = ipv6 ? Family::kIpv6 : Family::kIpv4;
  ::inet_pton(ipv6 ? AF_INET6 : AF_INET, address.c_str(), result.address.bytes.data());
  result.length_bits = static_cast<std::uint8_t>(std::atoi(text.c_str() + slash + 1));
  return result;
}

/// A NIC that is up, with RoCE v1 and v2 GIDs for each address, as Linux fills the table.
inline net::Nic nic(const std::string& name, const std::vector<std::string>& addresses) {
  net::Nic result;
  result.device_name = name;
  result.netdev = "net_" + name;
  result.link_up = true;
  result.mtu = 5;
  for (const std::string& text : addresses) {
    result.addresses.push_back(prefix(text));
    const auto index = static_cast<std::uint32_t>(result.gids.size());
    const verbs::Gid gid = net::gid_of(result.addresses.back().address);
    result.gids.push_back({.index = index, .type = verbs::GidType::kRoceV1, .gid = gid});
    result.gids.push_back({.index = index + 1, .type = verbs::GidType::kRoceV2, .gid = gid});
  }
  return result;
}

/// What a node with these NICs puts into its handle.
inline std::vector<net::PeerAddress> as_peer(const std::vector<net::Nic>& nics) {
  std::vector<net::PeerAddress> addresses;
  for (std::size_t index = 0; index < nics.size(); ++index) {
    for (const IpPrefix& address : nics[index].addresses) {
      addresses.push_back({.prefix = address, .nic = static_cast<std::uint8_t>(index)});
    }
  }
  return addresses;
}

}  // namespace meshbed::test

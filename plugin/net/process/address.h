#pragma once
// Subnets as values, and addresses in GIDs. A cable is a subnet: two ports can speak when each finds the other inside
// its own prefix.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "plugin/base/address.h"
#include "plugin/verbs/gid.h"

namespace meshbed::net {

using meshbed::Family;
using meshbed::IpAddress;
using meshbed::SocketAddress;
using meshbed::to_text;

/// An interface's address with the length of its prefix: 192.168.100.1/24.
struct IpPrefix {
  IpAddress address;
  std::uint8_t length_bits = 0;
  bool operator==(const IpPrefix&) const = default;
};

/// 32 or 128.
unsigned address_bits(Family family);
bool contains(const IpPrefix& prefix, const IpAddress& address);
/// Both ends find each other on link: the shorter one of the two prefix lengths. nullopt: no shared subnet.
std::optional<unsigned> shared_bits(const IpPrefix& left, const IpPrefix& right);
/// fe80::/10 or 169.254.0.0/16.
bool is_link_local(const IpAddress& address);

/// "192.168.0.0/16", "fd00::/8"; nullopt: it is none.
std::optional<IpPrefix> parse_prefix(std::string_view text);
std::string to_text(const IpPrefix& prefix);      // 192.168.100.1/24
std::string subnet_text(const IpPrefix& prefix);  // 192.168.100.0/24

/// As RoCE v2 writes an address: IPv4 is mapped, ::ffff:a.b.c.d.
inline verbs::Gid gid_of(const IpAddress& address) { return mapped_bytes(address); }
inline IpAddress address_of(const verbs::Gid& gid) { return from_mapped_bytes(gid); }

}  // namespace meshbed::net

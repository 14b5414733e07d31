#pragma once
// IP addresses and subnets as values, and how they stand in texts and socket addresses. A cable is a subnet: two ports
// can speak when each finds the other inside its own prefix.

#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace meshbed {

enum class Family : std::uint8_t { kIpv4 = 4, kIpv6 = 6 };

/// Network byte order; IPv4 occupies the first 4 bytes, the others are zero.
struct IpAddress {
  Family family = Family::kIpv4;
  std::array<std::uint8_t, 16> bytes{};
  bool operator==(const IpAddress&) const = default;
  auto operator<=>(const IpAddress&) const = default;
};
std::string to_text(const IpAddress& address);
/// "192.168.100.1", "fd00::1"; nullopt: it is neither.
std::optional<IpAddress> parse_ip_address(std::string_view text);
/// fe80::/10 or 169.254.0.0/16.
bool is_link_local(const IpAddress& address);
/// ::ffff:a.b.c.d of an IPv4 address, as IPv6 sockets and RoCE v2 write it; an IPv6 address as it is.
std::array<std::uint8_t, 16> mapped_bytes(const IpAddress& address);
IpAddress from_mapped_bytes(const std::array<std::uint8_t, 16>& bytes);

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
/// "192.168.0.0/16", "fd00::/8"; nullopt: it is none.
std::optional<IpPrefix> parse_prefix(std::string_view text);
std::string to_text(const IpPrefix& prefix);      // 192.168.100.1/24
std::string subnet_text(const IpPrefix& prefix);  // 192.168.100.0/24

/// An address with a TCP port, host order.
struct SocketAddress {
  IpAddress address;
  std::uint16_t port = 0;
  std::uint32_t scope = 0;  // of an IPv6 link-local address: the interface's index
  bool operator==(const SocketAddress&) const = default;
};
/// "10.0.0.1:29500" or "[fd00::1]:29500".
std::string to_text(const SocketAddress& address);
/// Fills `storage`, returns the length that goes with it.
socklen_t to_sockaddr(const SocketAddress& from, sockaddr_storage& storage);
/// As an IPv6 socket takes it: IPv4 mapped.
socklen_t to_mapped_sockaddr(const SocketAddress& from, sockaddr_storage& storage);
/// nullopt: neither IPv4 nor IPv6. A mapped IPv6 address comes back as IPv4.
std::optional<SocketAddress> from_sockaddr(const sockaddr* from);

}  // namespace meshbed

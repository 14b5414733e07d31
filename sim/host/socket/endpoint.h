#pragma once
// Endpoint: an address and a port, and how they stand in sockaddr_in and sockaddr_in6.
//
// IPv4 addresses are kept as IPv4 also where an AF_INET6 socket names them (::ffff:a.b.c.d).

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

#include "models/cluster.h"

namespace meshbed::sim {

struct Endpoint {
  models::IpAddress address;
  std::uint16_t port = 0;  // host order
  unsigned scope = 0;      // of a link-local address: the interface's index
};

/// nullopt where the length or the family is not that of an address for a socket of `family` (AF_INET, AF_INET6).
std::optional<Endpoint> read_sockaddr(int family, const sockaddr* address, socklen_t length);
/// Writes at most `*length` bytes and sets `*length` to the whole size, as getsockname(2). Null pointers: nothing.
void write_sockaddr(int family, const Endpoint& endpoint, sockaddr* address, socklen_t* length);

models::IpAddress any_address(int family);
bool is_any(const models::IpAddress& address);
bool is_loopback(const models::IpAddress& address);
/// IPv6: fe80::/10.
bool is_ipv6_link_local(const models::IpAddress& address);
std::string to_string(const Endpoint& endpoint);  // 192.168.100.1:4000, [fe80::1]:4000

}  // namespace meshbed::sim

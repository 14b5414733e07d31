#pragma once
// This machine's routes by way of a router, as the kernel's main table has them: /proc/net/route and
// /proc/net/ipv6_route (proc(5); fib_route_seq_show in net/ipv4/fib_trie.c, rt6_info_route in net/ipv6/ip6_fib.c). What
// stands in other tables, to which rules lead (ip-rule(8)), these files do not say.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/net/process/address.h"

namespace meshbed::net {

struct GatewayRoute {
  std::string netdev;
  IpPrefix destination;
  IpAddress gateway;
  bool operator==(const GatewayRoute&) const = default;
};

/// The text of /proc/net/route. Lines that mean nothing, and routes without a gateway, are left out.
std::vector<GatewayRoute> parse_ipv4_routes(std::string_view text);
/// Likewise of /proc/net/ipv6_route.
std::vector<GatewayRoute> parse_ipv6_routes(std::string_view text);

/// Both files as they are now; a file that cannot be read has none.
std::vector<GatewayRoute> read_gateway_routes();

/// The length of the longest destination that holds `address`, among the routes over `netdev`; nullopt: none does.
std::optional<unsigned> routed_bits(std::span<const GatewayRoute> routes, const std::string& netdev,
                                    const IpAddress& address);

}  // namespace meshbed::net

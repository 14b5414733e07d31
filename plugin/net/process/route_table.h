#pragma once
// This machine's routes through a router in the kernel's main table: /proc/net/route and /proc/net/ipv6_route (proc(5);
// fib_route_seq_show in net/ipv4/fib_trie.c, rt6_info_route in net/ipv6/ip6_fib.c). These files do not contain other
// tables, which rules may select (ip-rule(8)).

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

/// Parses the text of /proc/net/route. Invalid lines and routes without a gateway are left out.
std::vector<GatewayRoute> parse_ipv4_routes(std::string_view text);
/// Likewise of /proc/net/ipv6_route.
std::vector<GatewayRoute> parse_ipv6_routes(std::string_view text);

/// The present routes of both files; a file that cannot be read counts as empty.
std::vector<GatewayRoute> read_gateway_routes();

/// The length of the longest destination that holds `address`, among the routes over `netdev`; nullopt: none does.
std::optional<unsigned> routed_bits(std::span<const GatewayRoute> routes, const std::string& netdev,
                                    const IpAddress& address);

}  // namespace meshbed::net

#pragma once
// The content of one node's /proc/net/route and /proc/net/ipv6_route: its main routing table, as Linux prints it
// (fib_route_seq_show in net/ipv4/fib_trie.c, rt6_info_route in net/ipv6/ip6_fib.c). Tables that only rules lead to
// (models::Nic::policy_routed) are not included. Addresses are the present ones.

#include <string>

namespace meshbed::sim {

std::string ipv4_route_text(int node);
/// Without link-local and multicast routes, which every interface has.
std::string ipv6_route_text(int node);

}  // namespace meshbed::sim

#pragma once
// Which of our NICs reaches which of the peer's addresses. A pure function of two tables: subnets decide, indices never
// do.
//
// A pair (our address, peer's address) is a candidate where each lies inside the other's prefix, our link is up, we
// have a GID for our address, and the kernel would choose that NIC too (no other live NIC has a longer prefix around
// the peer's address). Among the candidates, in this order:
//   1. the requested NIC (`dev`), if it is among them;
//   2. the longest shared prefix;
//   3. the NIC that the peer listens on;
//   4. spread: the (dev modulo count)th of the rest, so that channels share parallel cables.
// If there is no candidate, a pair in different subnets becomes one if a router may join them (RouteRequest::routed):
// our interface has a route to the peer's address through a gateway, or the user permits it. The pair needs a RoCE v2
// GID, because RoCE v1 is not IP, and a peer address that lies in no subnet of our NICs. For rule 2 its prefix is the
// route's. A shared subnet always wins over a router, and a router over relays, which cost other nodes' time.
// Cost: NICs x addresses x peer addresses, at connect time only.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/net/process/nic.h"
#include "plugin/net/process/route_table.h"
#include "plugin/net/wire/handle.h"

namespace meshbed::net {

/// Which pairs in different subnets a router joins.
struct RoutedPairs {
  bool all = false;                       // all pairs (NCCL_MESH_ALLOW_ROUTED=1), without a look at the table
  std::span<const GatewayRoute> table{};  // pairs to whose address a route over our NIC's interface leads
};

struct RouteRequest {
  const std::vector<Nic>* nics = nullptr;
  std::span<const PeerAddress> peer;
  bool same_node = false;  // the peer is a process of this node: our own addresses are its addresses
  int dev = 0;             // requested by the caller
  int peer_dev = 0;        // that the peer listens on
  GidPreference gids{};
  std::optional<RoutedPairs> routed{};  // nullopt: none
};

struct Route {
  int nic = 0;
  IpPrefix local;
  verbs::GidEntry gid;
  PeerAddress remote;
  unsigned shared_bits = 0;
  bool overridden = false;  // nic != dev
  bool routed = false;      // through a router
};

/// An error (kUnreachable) names both sides' subnets and the reason. It never falls back to another network.
Result<Route> choose_route(const RouteRequest& request);

/// "; 192.168.100.0/24 is on eth1 here, which ...", where the peer is in the subnet of an interface of ours that
/// belongs to none of `nics`: a filter, or the rule for the management network, has left its port out. Empty: in none.
std::string left_out_text(const std::vector<InterfaceAddress>& interfaces, const std::vector<Nic>& nics,
                          std::span<const PeerAddress> peer);
/// The route of choose_route() first, then all other candidates.
Result<std::vector<Route>> all_routes(const RouteRequest& request);

}  // namespace meshbed::net

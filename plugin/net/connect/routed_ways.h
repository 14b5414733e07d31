#pragma once
// Routes to a peer through a router, where NCCL_MESH_ALLOW_ROUTED or the machine's routing table permits them. The
// table is read only if no subnet is shared and a port is up, because a connection that has lost its cable asks at each
// poll.

#include <vector>

#include "plugin/base/result.h"
#include "plugin/net/connect/routing.h"
#include "plugin/net/process/process.h"

namespace meshbed::net {

/// all_routes(), including the routes through a router that this process may use.
Result<std::vector<Route>> ways(Process& process, RouteRequest request);

/// Whether `nic`, which shares no subnet with `peer`, reaches it through a router, so that replies can reach the peer.
bool is_routed_to(Process& process, const Nic& nic, const IpAddress& peer);

}  // namespace meshbed::net

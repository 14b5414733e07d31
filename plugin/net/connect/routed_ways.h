#pragma once
// Ways to a peer by way of a router, where NCCL_MESH_ALLOW_ROUTED or the machine's routing table leaves them. The table
// is read only where no subnet is shared and a port is up; who has lost its cable asks at each poll.

#include <vector>

#include "plugin/base/result.h"
#include "plugin/net/connect/routing.h"
#include "plugin/net/process/process.h"

namespace meshbed::net {

/// all_routes(), with what this process may take over a router.
Result<std::vector<Route>> ways(Process& process, RouteRequest request);

/// Whether `nic`, in no subnet of `peer`, has a way to it by a router: what comes from there can be answered.
bool is_routed_to(Process& process, const Nic& nic, const IpAddress& peer);

}  // namespace meshbed::net

#pragma once
// Environment: all variables that the engine reads, in one place. Variables are NCCL's, by NCCL's rules.

#include <optional>
#include <string>

#include "plugin/base/result.h"
#include "plugin/coll/store/socket.h"

namespace meshbed::coll {

/// nullopt: not set, or empty, which is treated alike.
std::optional<std::string> variable(const char* name);

/// The address of this process on the management network, with port 0: an address of an interface that
/// NCCL_SOCKET_IFNAME ("eth", "=eth0", "^docker,lo") and NCCL_SOCKET_FAMILY ("AF_INET", "AF_INET6") allow. Of several,
/// in the system's order, one that is not an RDMA port's (only the cable's other end may reach that), not docker's and
/// not the loopback; and IPv4 before IPv6.
Result<SocketAddress> management_address();

}  // namespace meshbed::coll

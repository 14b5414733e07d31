#pragma once
// Environment: what the engine reads of it, in one place. Variables are NCCL's, by NCCL's rules.

#include <optional>
#include <string>

#include "plugin/base/result.h"
#include "plugin/coll/store/socket.h"

namespace meshbed::coll {

/// nullopt: not set, or empty, which is the same to us.
std::optional<std::string> variable(const char* name);

/// Where this process can be met on the management network, with port 0: an address of an interface that
/// NCCL_SOCKET_IFNAME ("eth", "=eth0", "^docker,lo") and NCCL_SOCKET_FAMILY ("AF_INET", "AF_INET6") leave. Of several,
/// in the system's order, one that is not an RDMA port's (a cable's other end may be the only one that reaches it), nor
/// docker's, nor the loopback; and IPv4 before IPv6.
Result<SocketAddress> management_address();

}  // namespace meshbed::coll

#pragma once
// Network interfaces of a node, as ordinary network calls list them.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/cluster.h"

namespace meshbed::sim {

struct Interface {
  std::string name;
  unsigned index = 0;  // 1: loopback
  bool loopback = false;
  bool running = true;  // carrier
  std::vector<models::IpPrefix> addresses;
};

/// The NIC's link-local address. A kernel gives every interface one; here only those have it that have no other
/// address, and its GID, so that programs find what the scenario lists.
std::optional<models::IpPrefix> link_local_of(models::PortRef port);

/// Loopback first, then the NICs in order, then the management port, then the VLAN interfaces on NICs.
std::vector<Interface> interfaces_of(int node);

}  // namespace meshbed::sim

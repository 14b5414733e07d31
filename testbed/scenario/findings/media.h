#pragma once
// Media: names of ports and VLANs in findings and reports, and which cables carry no addresses. Pure functions.

#include <cstdint>
#include <string>
#include <vector>

#include "models/cluster.h"

namespace meshbed::testbed {

/// "VLAN 100"; "no VLAN" for 0.
std::string vlan_text(std::uint16_t vlan);
/// "node0/rocep1s0f0", as a cable names the port: of a bond, the function.
std::string function_text(const models::Cluster& cluster, models::PortRef port);
/// "node0/rocep1s0f0, node1/rocep1s0f0 and 14 other NICs"
std::string functions_text(const models::Cluster& cluster, const std::vector<models::PortRef>& ports);
/// Neither end has an address, as the second function of a port often has none: the kernel gives each a link-local GID.
bool is_link_local_only(const models::Cluster& cluster, const models::Cable& cable);

}  // namespace meshbed::testbed

#pragma once
// What loses packets, or keeps ports apart, though cables are plugged and subnets are right: VLANs that differ, and a
// switch whose MTU is too small. Known before a run; lint and topo check say it. Pure functions.

#include <cstdint>
#include <string>
#include <vector>

#include "models/cluster.h"
#include "models/topology.h"

namespace meshbed::cli {

/// "VLAN 100"; "no VLAN" for 0.
std::string vlan_text(std::uint16_t vlan);

/// Cables whose ends, and subnets of a switch whose ports, are in different VLANs; each with the fix.
std::vector<std::string> cable_vlan_findings(const models::Cluster& cluster, const models::Topology& topology);
std::vector<std::string> switch_vlan_findings(const models::Cluster& cluster);

/// Switches and single ports of them that drop what is sent through them (models::small_switch_mtus), each with the
/// NICs whose packets those are and the fix.
std::vector<std::string> switch_mtu_findings(const models::Cluster& cluster, const models::Topology& topology);

/// All of these.
std::vector<std::string> medium_findings(const models::Cluster& cluster, const models::Topology& topology);

}  // namespace meshbed::cli

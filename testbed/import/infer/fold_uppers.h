#pragma once
// Interfaces above others (VLANs, bridges, bonds): what they have becomes that of the NICs below them. Pure functions
// of facts.

#include <string>
#include <vector>

#include "testbed/import/infer/mesh.h"

namespace meshbed::testbed::hosts {

/// A finding that counts if the interface turns out to be a NIC of the mesh.
struct PendingFinding {
  std::string netdev;
  ImportFinding finding;
};

/// Gives addresses, neighbours, GIDs, default routes and DHCP of VLAN interfaces, bridges and bonds to the NICs below
/// them, and makes HostFacts::bonds of the bonds that a scenario can have.
std::vector<PendingFinding> fold_uppers(HostFacts& host, AssumedList& assumed);

/// The member that has the bond's addresses; nullptr: none is known.
const NicFacts* first_member(const HostFacts& host, int bond);
/// nullptr: there is none.
const NicFacts* nic_with(const HostFacts& host, const std::string& netdev);

}  // namespace meshbed::testbed::hosts

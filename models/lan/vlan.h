#pragma once
// VLAN interfaces: eth0.100 on the netdev eth0 carries the NIC's addresses, and its frames a tag with that number
// (IEEE 802.1Q). An interface with another number, or none, does not accept them, over any cable or switch. The
// RDMA port stays that of eth0; the interface's addresses are further entries of its GID table (models/gid_table.h).

#include <string>

#include "models/cluster.h"

namespace meshbed::models {

inline constexpr int kVlanMax = 4094;  // 0 and 4095 are reserved (IEEE 802.1Q, table 9-2)

/// "eth0.100", as `ip link add link eth0 name eth0.100 type vlan id 100` calls it.
inline std::string vlan_netdev(const Nic& nic) { return nic.netdev + "." + std::to_string(nic.vlan); }

/// The interface that has the NIC's addresses.
inline std::string address_netdev(const Nic& nic) { return nic.vlan == 0 ? nic.netdev : vlan_netdev(nic); }

/// The interface that a GID of the NIC belongs to: gid_attrs/ndevs in sysfs.
inline std::string netdev_of(const Nic& nic, const GidEntry& entry) {
  return entry.vlan == 0 ? nic.netdev : vlan_netdev(nic);
}

}  // namespace meshbed::models

#pragma once
// The GID table of a RoCE port as Linux fills it from its netdev's addresses (roce_gid_mgmt.c in its RDMA core).
//
// Each address takes two neighbouring entries, RoCE v1 then v2; the link-local address comes first. With one IPv4
// address the table is 0, 1: link-local v1, v2; 2, 3: IPv4 v1, v2 - which is why NCCL_IB_GID_INDEX is so often 3.
// The entries of a VLAN interface stand behind those of the netdev below it, in the same table: link-local once more
// (the interface has the same MAC address), then its own addresses. There the IPv4 address is 4, 5.

#include <cstdint>
#include <vector>

#include "models/cluster.h"

namespace meshbed::models {

/// fe80:: with the EUI-64 of the port's MAC address, itself derived from the port's place in the cluster
/// (02:4d, node, NIC: 16 bits each).
IpAddress link_local_address(PortRef port);

/// The whole table of the NIC at `port` whose netdev, or the VLAN interface `vlan` on it (0: none), has `addresses`.
std::vector<GidEntry> linux_gid_table(PortRef port, const std::vector<IpPrefix>& addresses, std::uint16_t vlan = 0);

/// `table` after `from` was removed and `to` added: the new entries have the old ones' types and take the lowest free
/// places. The places of the old address are not free yet: their users keep them (GID_TABLE_ENTRY_PENDING_DEL in the
/// RDMA core's cache.c).
std::vector<GidEntry> exchanged_gids(const std::vector<GidEntry>& table, const IpAddress& from, const IpAddress& to);

}  // namespace meshbed::models

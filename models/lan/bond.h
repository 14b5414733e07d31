#pragma once
// Bonds: one netdev over several functions, and what RDMA makes of it. Pure functions of a cluster.
//
// Nomenclature: function - a port of a card, as PCI shows it. RoCE LAG - both functions of one mlx5 card in one bond,
// and nothing else in it: the driver makes one RDMA device of them with one port (mlx5_bond_0), which the bond's
// carrier holds up. Its name, addresses and GIDs are at the first function, the device's port; the others are cables to
// it.
//
// What is relied on (Linux 6.x):
// - RoCE LAG is made where all functions of one card, and nothing else, are in one bond of active-backup or of a mode
//   that hashes: balance-xor, 802.3ad. Those of balance-rr, broadcast, balance-tlb and balance-alb are not
//   (mlx5_handle_changeupper_event, drivers/net/ethernet/mellanox/mlx5/core/lag/lag.c; bond_lag_tx_type,
//   drivers/net/bonding/bond_main.c).
// - A queue pair sends by one function: by turns (get_tx_affinity_rr, drivers/infiniband/hw/mlx5/qp.c), or by a hash of
//   its packets' headers where the card can (mlx5_lag_set_port_sel_mode_roce; lag/port_sel.c). Never by both.
// - Slots of a function without link are mapped onto one that has it (mlx5_infer_tx_affinity_mapping); the RDMA port
//   goes down with the bond's carrier alone (mlx5_netdev_event, drivers/infiniband/hw/mlx5/main.c).
// - Without RoCE LAG each function keeps its RDMA device. Of active-backup, the active one's has the bond's GIDs and
//   the others none; in modes without an active function all have them (is_eth_active_slave_of_bonding_rcu,
//   drivers/infiniband/core/roce_gid_mgmt.c).
// - Bonding looks at its links every 100 ms (miimon, Documentation/networking/bonding.rst).

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "models/cluster.h"
#include "plugin/base/units.h"

namespace meshbed::models {

/// Until bonding, and the card with it, sends otherwise after a link went or came: miimon's default. A mean would be
/// half of it.
inline constexpr Picoseconds kBondLookPs = 100 * kPicosecondsPerMillisecond;

/// "802.3ad"
std::string_view to_string(BondMode mode);

/// nullptr: in none.
const Bond* bond_of(const Cluster& cluster, PortRef port);
/// The port whose RDMA device and netdev what comes over `port` belongs to: the first of its RoCE LAG, or itself.
PortRef device_of(const Cluster& cluster, PortRef port);
/// The ports that what `device` sends can leave by: of a RoCE LAG all functions in their order, else itself alone.
std::vector<PortRef> functions_of(const Cluster& cluster, PortRef device);
/// No RDMA device of its own: a function of a RoCE LAG behind the first.
bool is_lag_function(const Node& node, int nic);
/// The other functions' turn comes when it fails: in active-backup, not the first.
bool is_standby(const Cluster& cluster, PortRef port);
/// How many NICs of the node are RDMA devices: the first so many.
std::size_t rdma_devices(const Node& node);
/// As cables name it: rocep1s0f0, where the device is mlx5_bond_0.
const std::string& function_name(const Nic& nic);
/// Its own interface: enp1s0f0np0, where the netdev is bond0.
const std::string& function_netdev(const Nic& nic);
/// True where two RDMA names, or two sysfs paths of PCI functions, differ in the function's number alone:
/// rocep1s0f0 and rocep1s0f1, 0000:01:00.0 and 0000:01:00.1.
bool differ_in_function(std::string_view one, std::string_view other);
/// What one of its functions sends at most: its rate, or what its PCIe link leaves of it.
std::uint64_t function_rate_bps(const Node& node, const Bond& bond);
/// What its device sends at most: in active-backup what one function does, else what all do together.
std::uint64_t bond_rate_bps(const Node& node, const Bond& bond);

}  // namespace meshbed::models

#pragma once
// A NIC as the transport sees it: one port of one RDMA device with the addresses of its network interface. A value;
// routing reads it, discovery fills it. A NIC's position in the table is the `dev` of the ncclNet table.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugin/net/process/address.h"
#include "plugin/verbs/gid.h"

namespace meshbed::net {

/// The assumed rate of a port whose driver does not report one.
inline constexpr std::uint32_t kUnknownRateMbps = 10'000;

struct Nic {
  int device = 0;  // position in the list of open devices
  std::uint8_t port = 1;
  std::string device_name;  // rocep1s0f0
  std::string netdev;       // enp1s0f0np0, or the VLAN interface with its addresses; empty where sysfs hides it
  std::string pci_path;     // below /sys/devices; empty: unknown
  std::uint64_t guid = 0;
  std::vector<IpPrefix> addresses;
  std::optional<IpPrefix> link_local{};  // IPv6; only of a port that has no other address
  std::vector<verbs::GidEntry> gids;
  bool link_up = false;
  std::uint8_t mtu = 3;  // ibv_mtu
  std::uint32_t rate_mbps = 0;
  bool rate_known = true;  // else rate_mbps is a guess
  std::uint32_t max_message_bytes = 0;
  int max_queue_pairs = 0;
  std::int16_t rail = -1, plane = -1;  // from NCCL_IB_HCA; -1: not given
};

/// The purpose of a port, estimated from its rate. A node's ports are compared with one another, never with a fixed
/// number alone: soft-RoCE reports every port as slow, and such a node has no others.
enum class NicRole : std::uint8_t { kFast, kManagement, kUnknown };

/// kManagement: at most 25 Gb/s, beside a port of 50 Gb/s or more. kUnknown: its link is down, so that its later rate
/// is unknown, or its driver reports none. (The ancestor's classes and figures.)
NicRole role_of(const Nic& nic, const std::vector<Nic>& of_node);

/// An address of a network interface, as getifaddrs() returns it.
struct InterfaceAddress {
  std::string netdev;
  IpPrefix prefix;
  bool up = true;  // and running
};

/// Which of a NIC's addresses to use; if it has none of these, all.
struct AddressPreference {
  std::optional<Family> family{};
  std::optional<IpPrefix> range{};
};

/// The addresses that belong to a port: those of its network interface and those in its GID table (VLANs). IPv4
/// link-local ones count only if there is no other, because every cable would have the same subnet. The preference is
/// applied last.
std::vector<IpPrefix> addresses_of(const Nic& nic, const std::vector<InterfaceAddress>& interfaces,
                                   const AddressPreference& preference = {});

/// The IPv6 link-local address of the port's network interface, if its GID table contains it.
std::optional<IpPrefix> link_local_of(const Nic& nic, const std::vector<InterfaceAddress>& interfaces);

/// The interface that holds the addresses of `nic`: its own if it has one of them, else the one with the first, which
/// is a VLAN interface on it. Packets that are sent by interface name (IPv6 multicast) would be lost on the other one.
std::string addressed_netdev(const Nic& nic, const std::vector<InterfaceAddress>& interfaces);

/// How to choose among the GIDs that carry an address.
struct GidPreference {
  bool roce_v2 = true;    // else v1
  int forced_index = -1;  // >= 0: this entry, with any content
  int last_resort = -1;   // >= 0: this entry if none contains the address
};

/// Whether ports of the management network are used too: by NCCL_MESH_USE_MANAGEMENT, or by an NCCL_IB_HCA that lists
/// the ports to use.
bool takes_management(bool use_management, const std::string& hca_list);

/// The GID of `nic` for `address`: same address, preferred type, lowest index. A GID index must fit into the 8 bits of
/// ibv_global_route.
std::optional<verbs::GidEntry> find_gid(const Nic& nic, const IpAddress& address, const GidPreference& preference);

/// Whether a peer at `address` can be reached by `gid`. If a GID does not resolve, ibv_modify_qp() blocks for a second,
/// and with it everything that waits for the handshake. The address is known to resolve, because the control connection
/// came over it; so the GID must be that address. If an index is forced, the GID may be another address in `nic`'s
/// subnets, or link-local.
bool gid_may_answer(const Nic& nic, const verbs::Gid& gid, const IpAddress& address, const GidPreference& preference);
/// The reason, if gid_may_answer() returns false.
std::string foreign_gid_text(const verbs::Gid& gid, const IpAddress& address);

/// Whether a client at `client` that dialled our address `own` came over one of the cables: `own` belongs to an RDMA
/// port and `client` is in its subnet, or both are link-local. Our address alone proves little, because Linux accepts
/// packets for any of its addresses on any interface, also from routers; but our replies to an address of the subnet
/// leave over that cable.
bool is_over_cable(const std::vector<Nic>& nics, const IpAddress& own, const IpAddress& client);

bool has_ipv6(const std::vector<Nic>& nics);

/// "192.168.100.0/24 on rocep1s0f0 (up)" for every address, joined by ", ".
std::string describe_subnets(const std::vector<Nic>& nics);

}  // namespace meshbed::net

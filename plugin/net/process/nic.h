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

/// What a port is taken for whose driver does not say.
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
  std::int16_t rail = -1, plane = -1;  // as NCCL_IB_HCA says; -1: it does not
};

/// What a port is for, as far as its rate tells. A node's ports are compared with one another, never with a number
/// alone: soft-RoCE calls every port slow, and they are all it has.
enum class NicRole : std::uint8_t { kFast, kManagement, kUnknown };

/// kManagement: at most 25 Gb/s, beside a port of 50 Gb/s or more. kUnknown: its link is down, which says nothing of
/// the rate that it will have, or its driver names none. (The ancestor's classes and figures.)
NicRole role_of(const Nic& nic, const std::vector<Nic>& of_node);

/// An address of a network interface, as getifaddrs() tells it.
struct InterfaceAddress {
  std::string netdev;
  IpPrefix prefix;
  bool up = true;  // and running
};

/// Which of a NIC's addresses to use, where it has such; else all.
struct AddressPreference {
  std::optional<Family> family{};
  std::optional<IpPrefix> range{};
};

/// The addresses that belong to a port: those of its network interface and those that stand in its GID table (VLANs).
/// IPv4 link-local ones only where there is no other: every cable would have the same subnet. Then as is preferred.
std::vector<IpPrefix> addresses_of(const Nic& nic, const std::vector<InterfaceAddress>& interfaces,
                                   const AddressPreference& preference = {});

/// The IPv6 link-local address of the port's network interface that its GID table has, too.
std::optional<IpPrefix> link_local_of(const Nic& nic, const std::vector<InterfaceAddress>& interfaces);

/// The interface that `nic` is spoken to by: its own where that has one of its addresses, else the one that has the
/// first, which is a VLAN interface on it. What goes out by name of an interface (IPv6 multicast) is lost on the other.
std::string addressed_netdev(const Nic& nic, const std::vector<InterfaceAddress>& interfaces);

/// How to choose among the GIDs that carry an address.
struct GidPreference {
  bool roce_v2 = true;    // else v1
  int forced_index = -1;  // >= 0: this entry, whatever it holds
  int last_resort = -1;   // >= 0: this entry where none holds the address
};

/// Whether ports of the management network are used, too: NCCL_MESH_USE_MANAGEMENT, or NCCL_IB_HCA that lists those to
/// use.
bool takes_management(bool use_management, const std::string& hca_list);

/// The GID of `nic` that stands for `address`: same address, preferred type, lowest index. A GID index must fit the
/// 8 bits that ibv_global_route has for it.
std::optional<verbs::GidEntry> find_gid(const Nic& nic, const IpAddress& address, const GidPreference& preference);

/// May a peer at `address` be reached by `gid`? Where nobody answers for a GID, ibv_modify_qp() blocks for a second,
/// and with it everything that waits for the handshake. The address is known to answer, for the control connection came
/// over it; so the GID must be that address. Where an index is forced it may be another one of `nic`'s subnets, or
/// link-local.
bool gid_may_answer(const Nic& nic, const verbs::Gid& gid, const IpAddress& address, const GidPreference& preference);
/// Why not, for the one who is told.
std::string foreign_gid_text(const verbs::Gid& gid, const IpAddress& address);

/// Whether who came from `client` to our address `own` came over one of the cables: `own` is an RDMA port's, and
/// `client` in its subnet, or both are link-local. The own address alone says little, for Linux takes what comes for
/// any of its addresses in on any interface, and routers bring it there; but what we answer to an address of the subnet
/// leaves over that cable.
bool is_over_cable(const std::vector<Nic>& nics, const IpAddress& own, const IpAddress& client);

bool has_ipv6(const std::vector<Nic>& nics);

/// "192.168.100.0/24 on rocep1s0f0 (up)" for every address, joined by ", ".
std::string describe_subnets(const std::vector<Nic>& nics);

}  // namespace meshbed::net

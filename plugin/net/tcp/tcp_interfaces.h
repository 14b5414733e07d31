#pragma once
// Which network interfaces TCP may use for data, and between which addresses. Pure functions of tables.
//
// NCCL_SOCKET_IFNAME chooses interfaces by name (plugin/base/interface_list.h). Named ones come in the order of the
// list. If none is named, Docker's and libvirt's bridges are left out, because every machine has the same addresses
// there, and so are the cables, which RDMA uses. The loopback interface joins processes of one machine only, so it is
// used only if its full name is in the list, as "lo" or "=lo"; a prefix of it ("l") does not match.

#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/net/process/nic.h"
#include "plugin/net/process/peer_address.h"

namespace meshbed::net {

struct InterfaceChoice {
  std::string_view list;                          // NCCL_SOCKET_IFNAME
  std::optional<Family> family;                   // NCCL_SOCKET_FAMILY; nullopt: both, IPv4 first
  const std::set<std::string>* cables = nullptr;  // left out unless they are named
};
/// The usable interfaces, the best one first. Interfaces that are down and link-local addresses are left out.
std::vector<InterfaceAddress> usable_interfaces(const std::vector<InterfaceAddress>& interfaces,
                                                const InterfaceChoice& choice);

/// A pair of our address and the peer's.
struct TcpRoute {
  std::string netdev;
  IpPrefix local;
  IpAddress remote;
};
/// The pairs to try, in this order: those that share a subnet on the interface `preferred`, those on others, then those
/// through routers. `same_node`: our own addresses are the peer's too.
std::vector<TcpRoute> tcp_routes(const std::vector<InterfaceAddress>& own, std::span<const PeerAddress> peer,
                                 const std::string& preferred, bool same_node);

}  // namespace meshbed::net

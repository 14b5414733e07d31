// From a source GID index and a destination GID to the port at the other end, as Linux resolves the Ethernet
// address of a RoCE destination (ib_resolve_eth_dmac, rdma_resolve_ip in drivers/infiniband/core).
//
// The kernel looks for a route through the source GID's own interface only. IPv4 takes an address without such a route
// to be on the link (ip_route_output_key_hash_rcu: "Apparently, routing tables are wrong"), so that an address of a
// foreign subnet is resolved on this interface's cable like any other; without a reply the call lasts as long as the
// kernel's resolver and ends in ETIMEDOUT, the field's "error 110". IPv6 has no such rule: ENETUNREACH at once.
// If that interface has a route through a router, the router's Ethernet address is resolved instead of the
// destination's (addr4_resolve: the route's gateway). Packets to a port behind it that is down are lost later. RoCE v1
// is not IP: a router drops it, and the request ends in IBV_WC_RETRY_EXC_ERR. An address that no port behind the router
// has takes the resolver's time here; the kernel, with the router's reply, would leave it to the retries.
// A cable that is not plugged in removes no route (only an interface that is set down loses its routes): there is no
// reply, ETIMEDOUT.

#include <algorithm>
#include <cerrno>

#include "models/lan/frame.h"
#include "models/lan/router.h"
#include "sim/host/identity.h"
#include "sim/verbs/system.h"

namespace meshbed::sim::verbs {
namespace {

// rdma_resolve_ip is called with 1000 ms (ib_core's addr.c); measured on soft-RoCE: 1.03 s.
constexpr Picoseconds kResolveTimeoutPs = kPicosecondsPerSecond;

bool is_ipv4(const models::RawGid& gid) {  // ::ffff:a.b.c.d
  return std::all_of(gid.begin(), gid.begin() + 10, [](std::uint8_t byte) { return byte == 0; }) && gid[10] == 0xff &&
         gid[11] == 0xff;
}

bool is_link_local(const models::RawGid& gid) { return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80; }

models::IpAddress address_of(const models::RawGid& gid) {
  models::IpAddress address;
  address.family = is_ipv4(gid) ? models::Family::kIpv4 : models::Family::kIpv6;
  if (address.family == models::Family::kIpv4) {
    std::copy(gid.begin() + 12, gid.end(), address.bytes.begin());
  } else {
    address.bytes = gid;
  }
  return address;
}

/// In RoCE v2's UDP header, by which switches and bonds distinguish queue pairs: both ends of a connection use the same
/// (rdma_calc_flow_label and rdma_flow_label_to_udp_sport, include/rdma/ib_verbs.h).
std::uint64_t udp_source_port(std::uint32_t own_qp, std::uint32_t peer_qp) {
  std::uint64_t product = std::uint64_t{own_qp} * peer_qp;
  product ^= product >> 20U;
  product ^= product >> 40U;
  const std::uint64_t label = product & 0xfffffU;
  return ((label & 0x3fffU) ^ (label >> 14U)) | 0xc000U;
}

/// Of the interface that the source GID belongs to.
bool in_own_subnet(const models::Nic& nic, const models::GidEntry& source, const models::IpAddress& address) {
  if (source.vlan != nic.vlan) return false;  // the netdev below a VLAN interface has no addresses
  return std::any_of(nic.addresses.begin(), nic.addresses.end(),
                     [&](const models::IpPrefix& prefix) { return contains(prefix, address); });
}

/// The port that answers for `gid` on the wire of `port`, asked by the interface of `source`; {-1, -1}: none.
models::PortRef ask_wire(const System& system, models::PortRef port, const models::GidEntry& source,
                         const models::RawGid& gid) {
  if (!is_link_local(gid)) return system.network.neighbour(port, address_of(gid));
  for (const models::PortRef other : system.network.neighbours(port)) {
    const auto& gids = nic_of(system, other).gids;
    const auto has_it = [&](const models::GidEntry& entry) { return entry.gid == gid && entry.vlan == source.vlan; };
    if (system.network.port_up(other) && std::any_of(gids.begin(), gids.end(), has_it)) return other;
  }
  return {};
}

}  // namespace

int resolve_route(System& system, const QueuePair& qp, const ibv_qp_attr& wanted, PairRoute& route) {
  const models::PortRef port = qp.context->port;
  const ibv_ah_attr& attr = wanted.ah_attr;
  route.flow = udp_source_port(qp.number, wanted.dest_qp_num);
  const models::Nic& nic = nic_of(system, port);
  const models::GidEntry* source = gid_at(nic, attr.grh.sgid_index);
  if (source == nullptr) return attr.grh.sgid_index < gid_table_length(nic) ? ENODATA : EINVAL;  // rdma_get_gid_attr
  std::copy_n(attr.grh.dgid.raw, route.destination_gid.size(), route.destination_gid.begin());
  route.source_gid = source->gid;
  route.gid_type = source->type;
  route.vlan = source->vlan;
  route.headers_bytes =
      models::packet_headers_bytes(source->type, is_ipv4(source->gid) ? models::Family::kIpv4 : models::Family::kIpv6);
  const models::RawGid& destination = route.destination_gid;
  if (is_ipv4(destination) != is_ipv4(source->gid)) return EINVAL;  // two address families
  if (has_gid(nic, destination)) {
    route.peer = port;
    route.path = nullptr;
    route.dropped = false;
    return 0;
  }
  const bool on_link = is_link_local(destination) || in_own_subnet(nic, *source, address_of(destination));
  const bool routed = !on_link && models::route_by_router(nic, address_of(destination)) != nullptr;
  if (!on_link && !routed && !is_ipv4(destination)) return ENETUNREACH;

  // No port answers for a foreign subnet: even the owner of the address at the other end would need a route to reply.
  const bool answered = on_link && system.network.port_up(port);
  models::PortRef peer = answered ? ask_wire(system, port, *source, destination) : models::PortRef{};
  if (routed) peer = system.network.routed(port, address_of(destination));
  const Path* const path = peer.node < 0 ? nullptr : system.network.path(port, peer, route.flow);
  if (path == nullptr) {
    system.world.sleep(kResolveTimeoutPs);
    return ETIMEDOUT;
  }
  route.peer = peer;
  route.path = path;
  route.dropped = routed && route.gid_type == models::GidType::kRoceV1;
  return 0;
}

}  // namespace meshbed::sim::verbs

#include "sim/host/socket/udp_stack.h"

#include <algorithm>
#include <utility>

#include "sim/engine/network.h"
#include "sim/host/host_state.h"
#include "sim/host/socket/tcp_connection.h"
#include "sim/host/socket/udp_socket.h"

namespace meshbed::sim {
namespace {

/// Broadcasts and multicasts that this port's kernel takes in.
bool is_for_everybody(models::PortRef port, const models::IpAddress& destination) {
  if (is_all_nodes(destination)) return true;
  const auto& nic = World::get().cluster().nic_of(port);
  return std::any_of(nic.addresses.begin(), nic.addresses.end(), [&](const models::IpPrefix& prefix) {
    return prefix.address.family == models::Family::kIpv4 && prefix.length_bits < 31 &&
           broadcast_of(prefix) == destination;
  });
}

}  // namespace

models::IpAddress broadcast_of(const models::IpPrefix& prefix) {
  models::IpAddress broadcast = prefix.address;
  for (unsigned bit = prefix.length_bits; bit < 32 && prefix.length_bits < 31; ++bit) {
    broadcast.bytes[bit / 8] = static_cast<std::uint8_t>(broadcast.bytes[bit / 8] | (0x80U >> (bit % 8)));
  }
  return broadcast;
}

bool is_all_nodes(const models::IpAddress& address) {
  models::IpAddress group{.family = models::Family::kIpv6, .bytes = {}};
  group.bytes[0] = 0xff;
  group.bytes[1] = 0x02;
  group.bytes[15] = 0x01;
  return address == group;
}

void UdpStack::send(const IpRoute& route, const Datagram& datagram) {
  if (const auto far = resolve(route)) put_on_wire({.route = route, .far = *far, .datagram = datagram});
}

void UdpStack::send_to_all(models::PortRef port, const Datagram& datagram) {
  if (is_for_everybody(port, datagram.destination.address)) {
    const IpRoute home{.kind = RouteKind::kLocal,
                       .node = port.node,
                       .port = port,
                       .source = datagram.source.address,
                       .destination = datagram.source.address};
    Neighbour self = *resolve(home);
    self.port = port;
    put_on_wire({.route = home, .far = self, .datagram = datagram, .to_all = true});
  }
  Network& network = World::get().network();
  for (const models::PortRef far : network.neighbours(port)) {
    const Path* path = network.path(port, far);
    if (path == nullptr || !network.usable(*path) || !is_for_everybody(far, datagram.destination.address)) continue;
    if (!network.same_vlan(port, far)) continue;
    put_on_wire({.route = {.kind = RouteKind::kPort,
                           .node = port.node,
                           .port = port,
                           .source = datagram.source.address,
                           .destination = datagram.destination.address},
                 .far = neighbour_at(*path),
                 .datagram = datagram,
                 .to_all = true});
  }
}

void UdpStack::put_on_wire(InFlight packet) {
  const Picoseconds delay =
      wire_time_ps(packet.datagram.bytes.size(), packet.far.rate_bps) + packet.far.latency_ps + kStackDelay;
  const std::uint64_t number = next_number_++;
  World::get().after(delay, packet.far.node, &UdpStack::arrival_due, this, number);
  in_flight_.emplace(number, std::move(packet));
}

void UdpStack::arrival_due(void* self, std::uint64_t number) {
  auto& stack = *static_cast<UdpStack*>(self);
  const auto packet = stack.in_flight_.extract(number);
  stack.arrived(packet.mapped());
}

void UdpStack::arrived(const InFlight& packet) {
  constexpr std::size_t kHeaders = 20 + 8;  // IPv4, UDP
  if (!passes(packet.route, packet.far, packet.datagram.bytes.size() + kHeaders)) return;
  const Endpoint& to = packet.datagram.destination;
  const bool everybody = packet.to_all && is_for_everybody(packet.far.port, to.address);
  if (!everybody && !is_own_address(packet.far.node, to.address)) return;  // lost while the packet was on its way
  UdpSocket* chosen = nullptr;
  for (Socket* socket : ports.at(packet.far.node, to.port)) {
    auto* candidate = static_cast<UdpSocket*>(socket);  // this table holds no other kind
    if (everybody) {
      const bool over_wire = packet.route.kind != RouteKind::kLocal;
      if (is_any(candidate->local.address)) candidate->deliver(packet.datagram, over_wire);
    } else if (candidate->takes(to.address) &&
               (chosen == nullptr || !is_any(candidate->local.address) || is_any(chosen->local.address))) {
      chosen = candidate;  // the exact address before the wildcard, then the one that was bound last, as Linux
    }
  }
  if (chosen != nullptr) chosen->deliver(packet.datagram);
}

}  // namespace meshbed::sim

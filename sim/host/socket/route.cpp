#include "sim/host/socket/route.h"

#include <algorithm>

#include "models/lan/router.h"
#include "sim/engine/network.h"
#include "sim/engine/world.h"
#include "sim/host/socket/endpoint.h"
#include "sim/host/socket/interfaces.h"

namespace meshbed::sim {
namespace {

using models::IpAddress;
using models::IpPrefix;

// What a loopback interface moves; nothing that is measured here depends on it.
constexpr std::uint64_t kLoopbackRateBps = 100'000'000'000;

models::ManagementNetwork management_network() {
  return World::get().cluster().management.value_or(models::ManagementNetwork{});
}

/// Keeps the best of the routes that it is offered.
class Choice {
 public:
  Choice(const IpAddress& destination, const IpAddress& preferred_source)
      : destination_(destination), preferred_source_(preferred_source) {}

  void offer(const IpPrefix& prefix, const IpRoute& route) {
    if (!contains(prefix, destination_)) return;
    const bool preferred = route.source == preferred_source_;
    const bool better =
        !best_ || prefix.length_bits > length_bits_ || (prefix.length_bits == length_bits_ && preferred && !preferred_);
    if (!better) return;
    best_ = route;
    length_bits_ = prefix.length_bits;
    preferred_ = preferred;
  }
  const std::optional<IpRoute>& best() const { return best_; }

 private:
  const IpAddress& destination_;
  const IpAddress& preferred_source_;
  std::optional<IpRoute> best_;
  std::uint8_t length_bits_ = 0;
  bool preferred_ = false;
};

std::optional<int> node_with_management_address(const IpAddress& address) {
  const auto& nodes = World::get().cluster().nodes;
  const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const models::Node& node) {
    return node.management && node.management->address.address == address;
  });
  return found != nodes.end() ? std::optional(static_cast<int>(found - nodes.begin())) : std::nullopt;
}

/// {-1, -1}: none of the node's.
models::PortRef port_with_link_local(int node, const IpAddress& address) {
  const std::size_t nics = World::get().node_at(node).nics.size();
  for (models::PortRef port{node, 0}; port.nic < static_cast<int>(nics); ++port.nic) {
    const auto own = link_local_of(port);
    if (own && own->address == address) return port;
  }
  return {};
}

/// The port that has a link-local address on the wire of `port`; {-1, -1}: none.
models::PortRef link_local_neighbour(models::PortRef port, const IpAddress& address) {
  Network& network = World::get().network();
  if (!network.port_up(port)) return {};
  for (const models::PortRef other : network.neighbours(port)) {
    const auto own = link_local_of(other);
    if (own && own->address == address && network.port_up(other)) return other;
  }
  return {};
}

}  // namespace

bool is_own_address(int node, const IpAddress& address) {
  if (is_loopback(address)) return true;
  const models::Node& own = World::get().node_at(node);
  if (own.management && own.management->address.address == address) return true;
  if (is_ipv6_link_local(address)) return port_with_link_local(node, address).node >= 0;
  return std::any_of(own.nics.begin(), own.nics.end(), [&](const models::Nic& nic) {
    return std::any_of(nic.addresses.begin(), nic.addresses.end(),
                       [&](const IpPrefix& prefix) { return prefix.address == address; });
  });
}

std::optional<IpRoute> find_route(int node, const IpAddress& destination, const IpAddress& preferred_source) {
  if (is_own_address(node, destination)) {
    return IpRoute{
        .kind = RouteKind::kLocal, .node = node, .port = {}, .source = destination, .destination = destination};
  }
  if (is_ipv6_link_local(destination)) {
    // By the interface that the socket is bound to.
    const models::PortRef port = port_with_link_local(node, preferred_source);
    if (port.node < 0) return std::nullopt;
    return IpRoute{
        .kind = RouteKind::kPort, .node = node, .port = port, .source = preferred_source, .destination = destination};
  }
  const models::Node& own = World::get().node_at(node);
  Choice choice(destination, preferred_source);
  for (std::size_t nic = 0; nic < own.nics.size(); ++nic) {
    for (const IpPrefix& prefix : own.nics[nic].addresses) {
      choice.offer(prefix, {.kind = RouteKind::kPort,
                            .node = node,
                            .port = {node, static_cast<int>(nic)},
                            .source = prefix.address,
                            .destination = destination});
    }
    for (const models::GatewayRoute& route : own.nics[nic].routes) {
      const IpPrefix* source = models::source_of(own.nics[nic], route);
      if (source == nullptr || (own.nics[nic].policy_routed && source->address != preferred_source)) continue;
      choice.offer(route.destination, {.kind = RouteKind::kPort,
                                       .node = node,
                                       .port = {node, static_cast<int>(nic)},
                                       .source = source->address,
                                       .destination = destination,
                                       .by_router = true});
    }
  }
  if (own.management) {
    choice.offer(own.management->address, {.kind = RouteKind::kManagement,
                                           .node = node,
                                           .port = {},
                                           .source = own.management->address.address,
                                           .destination = destination});
  }
  return choice.best();
}

std::optional<Neighbour> resolve(const IpRoute& route) {
  World& world = World::get();
  switch (route.kind) {
    case RouteKind::kLocal:
      return Neighbour{.node = route.node, .port = {}, .latency_ps = 0, .rate_bps = kLoopbackRateBps};
    case RouteKind::kManagement: {
      const auto node = node_with_management_address(route.destination);
      if (!node) return std::nullopt;
      const auto network = management_network();
      return Neighbour{.node = *node, .port = {}, .latency_ps = network.latency_ps, .rate_bps = network.rate_bps};
    }
    case RouteKind::kPort:
      break;
  }
  Network& network = world.network();
  models::PortRef far;
  if (is_ipv6_link_local(route.destination)) {
    far = link_local_neighbour(route.port, route.destination);
  } else {
    far = route.by_router ? network.routed(route.port, route.destination)
                          : network.neighbour(route.port, route.destination);
  }
  if (far.node < 0) return std::nullopt;
  const Path* path = network.path(route.port, far);
  if (path == nullptr || !network.usable(*path)) return std::nullopt;
  return neighbour_at(*path);
}

Neighbour neighbour_at(const Path& path) {
  const std::vector<Link>& links = World::get().network().links();
  std::uint64_t rate_bps = links[static_cast<std::size_t>(path.links.front())].rate_bps;
  for (const int link : path.links) rate_bps = std::min(rate_bps, links[static_cast<std::size_t>(link)].rate_bps);
  return {.node = path.destination.node,
          .port = World::get().network().device(path.destination),
          .latency_ps = path.latency_ps,
          .rate_bps = rate_bps};
}

bool passes(const IpRoute& route, const Neighbour& neighbour, std::size_t packet_bytes) {
  if (route.kind != RouteKind::kPort) return true;
  const Network& network = World::get().network();
  const Path* path = network.path(route.port, neighbour.port);
  if (path == nullptr || !network.usable(*path)) return false;
  if (path->mtu_bytes == 0 || packet_bytes <= path->mtu_bytes) return true;
  const auto interface_mtu = [](models::PortRef port) {
    return World::get().node_at(port.node).nics[static_cast<std::size_t>(port.nic)].mtu_bytes;
  };
  return std::min(interface_mtu(route.port), interface_mtu(neighbour.port)) <= path->mtu_bytes;
}

bool addresses_hold(const IpRoute& route, const Neighbour& neighbour) {
  return is_own_address(route.node, route.source) && is_own_address(neighbour.node, route.destination);
}

}  // namespace meshbed::sim

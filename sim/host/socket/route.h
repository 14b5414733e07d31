#pragma once
// IpRoute: how a node's ordinary (TCP) traffic leaves towards an address. Subnet truth: the subnets of the node's own
// interfaces are reachable, each over its own cable, switch or the management network, and those to which an interface
// has a route by way of a router; no node forwards anything.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "models/cluster.h"
#include "plugin/base/units.h"

namespace meshbed::sim {

struct Path;

/// What both kernels together add to a packet's way, TCP or UDP.
inline constexpr Picoseconds kStackDelay = 5 * kPicosecondsPerMicrosecond;

enum class RouteKind { kLocal, kPort, kManagement };

struct IpRoute {
  RouteKind kind = RouteKind::kLocal;
  int node = 0;              // where it begins
  models::PortRef port;      // kPort: the interface that it leaves by
  models::IpAddress source;  // the one that the route prefers, or that its socket is bound to
  models::IpAddress destination;
  bool by_router = false;  // kPort: not in a subnet of that interface
};

/// The far end of a route, once its address resolves.
struct Neighbour {
  int node = 0;
  models::PortRef port;        // kPort: its port
  Picoseconds latency_ps = 0;  // one way: cable, switch; not the stacks
  std::uint64_t rate_bps = 0;  // of the slowest link on the way
};

/// The node's route to `destination`: its own addresses first, then the longest prefix that holds it; among equals the
/// interface that owns `preferred_source`, then the first. Routes in a table of their own count for their interface's
/// addresses alone (ip-rule(8), "from"). nullopt: no route (ENETUNREACH).
std::optional<IpRoute> find_route(int node, const models::IpAddress& destination,
                                  const models::IpAddress& preferred_source);

/// The port that answers for the destination now (ARP, neighbour discovery); nullopt: none.
std::optional<Neighbour> resolve(const IpRoute& route);

/// The far end of a path between two ports.
Neighbour neighbour_at(const Path& path);

/// A packet that leaves now would arrive. Of `packet_bytes` with its IP header; what is longer goes in packets as large
/// as the interfaces of both ends take, which a switch with a smaller MTU drops.
bool passes(const IpRoute& route, const Neighbour& neighbour, std::size_t packet_bytes = 0);

/// Both ends still have the addresses that the route joins; packets from or to an address that is gone do not arrive.
bool addresses_hold(const IpRoute& route, const Neighbour& neighbour);

/// True where `address` is one of the node's own, loopback included.
bool is_own_address(int node, const models::IpAddress& address);

}  // namespace meshbed::sim

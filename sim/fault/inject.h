#pragma once
// Inject: the faults of the simulated world, one function for each fault point. The names of the points are those of
// [[fault]] entries (scenarios/README.md); the runner of a scenario's faults schedules these functions.
//
// To be called from events (World::at), between the ranks' own steps; each takes effect at that instant.

#include "models/cluster.h"
#include "sim/engine/network.h"
#include "sim/engine/world.h"

namespace meshbed::sim {

/// loss, delay, rate, reorder: applies to packets that the port sends from now on, acknowledgements included. At a
/// switch the rate applies to packets to the port too; at a cable shape the other end likewise.
void shape_port(World& world, models::PortRef port, const Shape& shape);
/// cable_down, cable_up, port_down, port_up: the port's own link. A cable has no link while either end has none;
/// packets on it are lost, and asynchronous events report the change. The bond of the port reacts at its next look
/// (kBondLookPs): a RoCE LAG moves its queue pairs; an active-backup bond without one moves addresses, GIDs and routes
/// to another function's device, and connections of the first device stay without them.
void set_link(World& world, models::PortRef port, bool up);
/// address_change: the interface loses one address and gets another of the same subnet, and the GID table follows. The
/// old address no longer resolves, and nothing can be sent from it: queue pairs and sockets that use it receive
/// nothing. soft-RoCE behaves so; an adapter may keep the GIDs that its queue pairs hold, so this is the worst case.
void change_address(World& world, models::PortRef port, const models::IpPrefix& from, const models::IpPrefix& to);
/// node_stop, node_continue: the whole machine stands still, its adapters too, and goes on later.
void stop_node(World& world, int node);
void continue_node(World& world, int node);
/// node_kill: the power goes, and with it the links of its ports.
void kill_node(World& world, int node);

}  // namespace meshbed::sim

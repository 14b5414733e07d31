#pragma once
// Inject: what can go wrong in the simulated world, one function a fault point. The names of the points are those of
// [[fault]] entries (scenarios/README.md); who carries out a scenario's faults schedules these.
//
// To be called from events (World::at), between the ranks' own steps; each takes effect at that instant.

#include "models/cluster.h"
#include "sim/engine/network.h"
#include "sim/engine/world.h"

namespace meshbed::sim {

/// loss, delay, rate, reorder: what the port sends from now on is treated so. Answers are packets as well. At a switch
/// the rate holds for what the port gets, too; at a cable shape the other end likewise.
void shape_port(World& world, models::PortRef port, const Shape& shape);
/// cable_down, cable_up, port_down, port_up: the port's own link. A cable has none while either end has none; what is
/// on the way over it is lost, and asynchronous events tell. The bond that the port is in acts upon it when it looks
/// next (kBondLookPs): a RoCE LAG moves its queue pairs; an active-backup bond without one hands addresses, GIDs and
/// routes over to another function's device, and what was connected by the first one's stays without.
void set_link(World& world, models::PortRef port, bool up);
/// address_change: the interface loses one address and gets another of the same subnet, and the GID table follows. To
/// the old address nobody answers any more, and from it nothing can be sent: what stands on it hears nothing, queue
/// pairs included. soft-RoCE does so; an adapter may keep the GIDs that its queue pairs hold, so this is the worst
/// case.
void change_address(World& world, models::PortRef port, const models::IpPrefix& from, const models::IpPrefix& to);
/// node_stop, node_continue: the whole machine stands still, its adapters too, and goes on later.
void stop_node(World& world, int node);
void continue_node(World& world, int node);
/// node_kill: the power goes, and with it the links of its ports.
void kill_node(World& world, int node);

}  // namespace meshbed::sim

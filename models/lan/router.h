#pragma once
// Router: the ports that reach each other over a router. Pure functions of a Cluster.
//
// RoCE v2 is UDP in IP (destination port 4791), which routers forward; RoCE v1 is Ethernet alone, and ends at the
// first. Two ports in different subnets reach each other where a router joins their switches and each NIC has a route
// to the other's address by way of it. Linux takes a queue pair's hop limit from that route, 64 by default, and
// ignores that of ibv_modify_qp() (ib_resolve_unicast_gid_dmac, drivers/infiniband/core/verbs.c), so that none is too
// small.

#include <vector>

#include "models/cluster.h"

namespace meshbed::models {

/// The NIC's route by way of its router that holds `address`, the longest one; nullptr: none does, or its gateway lies
/// in no subnet that the NIC is in now.
const GatewayRoute* route_by_router(const Nic& nic, const IpAddress& address);

/// The NIC's own address in the gateway's subnet, which packets that take the route come from; nullptr: there is none.
const IpPrefix* source_of(const Nic& nic, const GatewayRoute& route);

/// [node][nic] the switch that the port hangs on; -1: none.
std::vector<std::vector<int>> switches_of_ports(const Cluster& cluster);

/// The switches that the router joins hold `box`.
bool joins(const Router& router, int box);

/// Switches between which packets may go: those that chains of routers join stand together, every other one alone; each
/// list ascending, in order of its first.
std::vector<std::vector<int>> joined_switches(const Cluster& cluster);

}  // namespace meshbed::models

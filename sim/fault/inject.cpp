#include "sim/fault/inject.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "models/gid_table.h"
#include "models/lan/bond.h"
#include "sim/engine/fabric.h"
#include "sim/verbs/verbs_host.h"

namespace meshbed::sim {
namespace {

/// What follows from another active function where each has an RDMA device of its own: addresses, GIDs and the routes
/// of the bond's interface go over to it, as they are, for the bond's MAC address does, too (fail_over_mac=none).
void hand_over(World& world, models::PortRef from, models::PortRef to) {
  models::Nic& left = world.change_nic(from);
  models::Nic& taken = world.change_nic(to);
  taken.addresses = std::exchange(left.addresses, {});
  taken.gids = std::exchange(left.gids, {});
  taken.routes = std::exchange(left.routes, {});
  taken.policy_routed = std::exchange(left.policy_routed, false);
  gids_changed(from);
  gids_changed(to);
}

/// The function that has the address by now, where a bond may have handed it over; else `port`.
models::PortRef holder_of(World& world, models::PortRef port, const models::IpPrefix& address) {
  const models::Bond* const bond = models::bond_of(world.cluster(), port);
  if (bond == nullptr || bond->lag) return port;
  for (const int nic : bond->functions) {
    const std::vector<models::IpPrefix>& own = world.node_at(port.node).nics[static_cast<std::size_t>(nic)].addresses;
    if (std::find(own.begin(), own.end(), address) != own.end()) return {port.node, nic};
  }
  return port;
}

constexpr unsigned kNicBits = 16;

void look_due(void* self, std::uint64_t function) {
  World& world = *static_cast<World*>(self);
  const models::PortRef port{static_cast<int>(function >> kNicBits),
                             static_cast<int>(function & ((1U << kNicBits) - 1))};
  const auto change = world.network().look_at_bond(port);
  if (!change) return;
  if (models::bond_of(world.cluster(), port)->lag) {
    bond_changed(world.network().device(port));
  } else if (change->from != change->to) {
    hand_over(world, change->from, change->to);
  }
}

}  // namespace

void shape_port(World& world, models::PortRef port, const Shape& shape) {
  Network& network = world.network();
  network.set_shape(port, shape);
  // What comes over a cable is the other end's to slow.
  for (const int number : {network.link_out(port), network.link_from_switch(port)}) {
    if (number < 0) continue;
    const Link& link = network.links()[static_cast<std::size_t>(number)];
    const std::uint64_t rate_bps = shape.rate_bps != 0 ? std::min(shape.rate_bps, link.rate_bps) : link.rate_bps;
    if (rate_bps != link.shaped_bps) world.fabric().set_rate(number, rate_bps);
  }
}

void set_link(World& world, models::PortRef port, bool up) {
  world.network().set_port_up(port, up);
  port_changed(port);
  if (models::bond_of(world.cluster(), port) == nullptr) return;
  const auto function = static_cast<std::uint64_t>(port.node) << kNicBits | static_cast<std::uint64_t>(port.nic);
  world.after(models::kBondLookPs, port.node, look_due, &world, function);
}

void change_address(World& world, models::PortRef port, const models::IpPrefix& from, const models::IpPrefix& to) {
  port = holder_of(world, port, from);
  models::Nic& nic = world.change_nic(port);
  std::erase(nic.addresses, from);
  nic.addresses.push_back(to);
  nic.gids = models::exchanged_gids(nic.gids, from.address, to.address);
  gids_changed(port);
}

void stop_node(World& world, int node) { world.stop_node(node); }

void continue_node(World& world, int node) {
  if (!world.stopped(node)) return;
  world.continue_node(node);
  if (!world.stopped(node)) node_continued(node);
}

void kill_node(World& world, int node) {
  const std::size_t nics = world.cluster().at(node).nics.size();
  for (std::size_t nic = 0; nic < nics; ++nic) set_link(world, {node, static_cast<int>(nic)}, false);
  world.kill_node(node);
}

}  // namespace meshbed::sim

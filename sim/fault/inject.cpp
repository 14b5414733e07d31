#include "sim/fault/inject.h"

#include <algorithm>
#include <vector>

#include "models/gid_table.h"
#include "sim/engine/fabric.h"
#include "sim/verbs/verbs_host.h"

namespace meshbed::sim {

void shape_port(World& world, models::PortRef port, const Shape& shape) {
  Network& network = world.network();
  network.set_shape(port, shape);
  const int link = network.link_out(port);
  if (link < 0) return;
  const Link& out = network.links()[static_cast<std::size_t>(link)];
  const std::uint64_t rate_bps = shape.rate_bps != 0 ? std::min(shape.rate_bps, out.rate_bps) : out.rate_bps;
  if (rate_bps != out.shaped_bps) world.fabric().set_rate(link, rate_bps);
}

void set_link(World& world, models::PortRef port, bool up) {
  world.network().set_port_up(port, up);
  port_changed(port);
}

void change_address(World& world, models::PortRef port, const models::IpPrefix& from, const models::IpPrefix& to) {
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
  const std::size_t nics = world.cluster().nodes[static_cast<std::size_t>(node)].nics.size();
  for (std::size_t nic = 0; nic < nics; ++nic) set_link(world, {node, static_cast<int>(nic)}, false);
  world.kill_node(node);
}

}  // namespace meshbed::sim

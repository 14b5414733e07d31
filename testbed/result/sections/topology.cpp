// What is connected to what, so that a page can draw the cluster without the scenario's file.

#include "models/topology.h"

#include <cstddef>
#include <string>

#include "models/lan/bond.h"
#include "sim/trace/recorder.h"
#include "testbed/result/run_document.h"
#include "testbed/scenario/placement.h"

namespace meshbed::testbed::document {
namespace {

constexpr std::size_t kListedNodesMax = 128;  // more are not drawn, and their lists are long

Section topology_shape() {
  Section section{.key = "topology", .title = "Topology"};
  section.with({text("description", "of the scenario"), text("shape", "of the direct paths"),
                integer("node_count", "", "nodes; the lists are empty above 128"),
                texts("rank_nodes", "the node of each rank")});
  section.with(Table{.key = "nodes", .meaning = "the nodes, in order", .columns = {text("name", "of the node")}});
  section.with(Table{
      .key = "nics",
      .meaning = "the ports, by node",
      .columns = {integer("node", "", "index in nodes"), text("device", "RDMA device"),
                  text("function", "its name in links"), texts("addresses", "with prefix lengths"),
                  integer("rate_bps", "bit/s", "rate"), flag("up", "whether its link is up at the start"),
                  integer("vlan", "", "of its addresses; 0: none"), text("bond", "that it is part of; empty: none")}});
  const Field a_nic = integer("a_nic", "", "index in nics"), b_nic = integer("b_nic", "", "index in nics");
  section.with(Table{.key = "cables",
                     .meaning = "the cables",
                     .columns = {text("name", "of the cable"), a_nic, b_nic, integer("rate_bps", "bit/s", "rate")}});
  section.with(Table{.key = "switches",
                     .meaning = "the switches",
                     .columns = {text("name", "of the switch"), integer("rate_bps", "bit/s", "of each port"),
                                 any("nics", "plugged in: indices in nics")}});
  return section.with(Table{.key = "routers",
                            .meaning = "the routers",
                            .columns = {text("name", "of the router"), integer("rate_bps", "bit/s", "of each port"),
                                        any("switches", "behind it: indices in switches")}});
}

Value addresses_of(const models::Nic& nic) {
  Value addresses = Value::array();
  for (const models::IpPrefix& address : nic.addresses) addresses.push_back(to_text(address));
  return addresses;
}

void fill_topology_lists(Section& section, const models::Cluster& cluster) {
  std::vector<std::size_t> first_nic;  // [node]
  std::size_t nics = 0;
  for (std::size_t index = 0; index < cluster.nodes.size(); ++index) {
    const models::Node& node = cluster.nodes[index];
    section.table("nodes").add({node.name});
    first_nic.push_back(nics);
    nics += node.nics.size();
    for (const models::Nic& nic : node.nics) {
      section.table("nics").add({index, nic.device, models::function_name(nic), addresses_of(nic), nic.rate_bps,
                                 nic.link_up, nic.vlan,
                                 nic.bond < 0 ? "" : node.bonds[static_cast<std::size_t>(nic.bond)].name});
    }
  }
  const auto index_of = [&](models::PortRef port) {
    return first_nic[static_cast<std::size_t>(port.node)] + static_cast<std::size_t>(port.nic);
  };
  for (const models::Cable& cable : cluster.cables) {
    section.table("cables").add({cable.name, index_of(cable.a), index_of(cable.b), cable.rate_bps});
  }
  for (const models::Switch& each : cluster.switches) {
    Value ports = Value::array();
    for (const models::PortRef port : each.ports) ports.push_back(index_of(port));
    section.table("switches").add({each.name, each.rate_bps, std::move(ports)});
  }
  for (const models::Router& router : cluster.routers) {
    section.table("routers").add({router.name, router.rate_bps, router.switches});
  }
}

void fill_topology(Section& section, const RunView& run) {
  const models::Cluster& cluster = run.scenario.cluster;
  section.set("description", run.scenario.description);
  section.set("shape", models::describe(models::classify(models::analyse(cluster)), cluster.nodes.size()));
  section.set("node_count", cluster.nodes.size());
  section.set("rank_nodes", Value::array());
  if (cluster.nodes.size() > kListedNodesMax) return;
  Value rank_nodes = Value::array();
  for (int rank = 0; rank < ranks_of(run.scenario); ++rank) {
    rank_nodes.push_back(cluster.at(node_of(run.scenario, rank)).name);
  }
  section.set("rank_nodes", std::move(rank_nodes));
  fill_topology_lists(section, cluster);
}

const RunSection topology_here(1310, topology_shape, fill_topology);

}  // namespace
}  // namespace meshbed::testbed::document

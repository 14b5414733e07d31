#include "testbed/topology/bring_up.h"

#include <fmt/format.h>

#include "models/lan/bond.h"
#include "models/lan/vlan.h"
#include "models/routing_rules.h"
#include "models/topology.h"
#include "sim/engine/network.h"
#include "testbed/base/units.h"
#include "testbed/scenario/placement.h"

namespace meshbed::testbed {
namespace {

std::string addresses_lines(const models::Nic& nic, int indent) {
  std::string text = fmt::format("{:{}}addresses:\n", "", indent);
  for (const models::IpPrefix& address : nic.addresses)
    text += fmt::format("{:{}}- {}\n", "", indent + 2, to_text(address));
  if (nic.routes.empty()) return text;
  text += fmt::format("{:{}}routes:\n", "", indent);
  for (const models::GatewayRoute& route : nic.routes) {
    text += fmt::format("{:{}}- to: {}\n{:{}}via: {}\n", "", indent + 2, to_text(route.destination), "", indent + 4,
                        to_text(route.gateway));
  }
  return text;
}

/// The functions of each bond, one bond a paragraph.
std::string bonds_lines(const models::Node& node) {
  std::string text;
  for (const models::Bond& bond : node.bonds) {
    const models::Nic& first = node.nic(bond.functions.front());
    std::string members;
    for (const int function : bond.functions) {
      members += (members.empty() ? "" : ", ") + models::function_netdev(node.nic(function));
    }
    text += fmt::format("    {}:\n      interfaces: [{}]\n      parameters:\n        mode: {}\n", bond.name, members,
                        to_string(bond.mode));
    if (bond.mode != models::BondMode::kActiveBackup) {
      text += fmt::format("        transmit-hash-policy: {}\n", bond.hashes_flows ? "layer3+4" : "layer2");
    } else {
      text += fmt::format("        primary: {}\n", models::function_netdev(first));
    }
    text += fmt::format("        mii-monitor-interval: {}\n      mtu: {}\n      link-local: []\n",
                        models::kBondLookPs / kPicosecondsPerMillisecond, first.mtu_bytes);
    if (!first.addresses.empty()) text += addresses_lines(first, 6);
  }
  return text;
}

/// The subnet that both ends share; empty: none.
std::string shared_subnet(const models::Nic& one, const models::Nic& other) {
  for (const models::IpPrefix& left : one.addresses) {
    for (const models::IpPrefix& right : other.addresses) {
      if (models::same_subnet(left, right)) return subnet_text(left);
    }
  }
  return "";
}

}  // namespace

std::string netplan_of(const models::Node& node) {
  std::string ethernets, vlans;
  for (const models::Nic& nic : node.nics) {
    if (nic.bond >= 0) {
      ethernets += fmt::format("    {}: {{mtu: {}, link-local: []}}\n", models::function_netdev(nic), nic.mtu_bytes);
      continue;
    }
    if (nic.addresses.empty()) continue;
    ethernets += fmt::format("    {}:\n      mtu: {}\n      link-local: []\n", nic.netdev, nic.mtu_bytes);
    if (nic.vlan == 0) {
      ethernets += addresses_lines(nic, 6);
    } else {
      vlans += fmt::format("    {}:\n      id: {}\n      link: {}\n      mtu: {}\n", models::vlan_netdev(nic), nic.vlan,
                           nic.netdev, nic.mtu_bytes) +
               addresses_lines(nic, 6);
    }
  }
  std::string text = fmt::format("# {}: /etc/netplan/60-meshbed.yaml\nnetwork:\n  version: 2\n", node.name);
  if (!ethernets.empty()) text += "  ethernets:\n" + ethernets;
  if (!node.bonds.empty()) text += "  bonds:\n" + bonds_lines(node);
  if (!vlans.empty()) text += "  vlans:\n" + vlans;
  return text;
}

std::string cable_list(const models::Cluster& cluster) {
  std::string text = "cable,from,to,subnet,rate\n";
  for (const models::Cable& cable : cluster.cables) {
    text +=
        fmt::format("{},{},{},{},{}\n", cable.name, sim::port_name(cluster, cable.a), sim::port_name(cluster, cable.b),
                    shared_subnet(cluster.nic_of(cable.a), cluster.nic_of(cable.b)), rate_text(cable.rate_bps));
  }
  for (const models::Switch& box : cluster.switches) {
    for (const models::PortRef& port : box.ports) {
      const models::Nic& nic = cluster.nic_of(port);
      text += fmt::format("{0}-{1},{0},{1},{2},{3}\n", sim::port_name(cluster, port), box.name,
                          nic.addresses.empty() ? "" : subnet_text(nic.addresses.front()), rate_text(nic.rate_bps));
    }
  }
  return text;
}

std::string job_environment(const Scenario& scenario) {
  std::string text = "# Meshbed's net plugin: its folder also belongs into LD_LIBRARY_PATH\nNCCL_NET_PLUGIN=mesh\n";
  if (!scenario.cluster.nodes.empty()) {
    for (const auto& [name, value] : scenario.cluster.nodes.front().environment)
      text += fmt::format("{}={}\n", name, value);
  }
  const models::Topology topology = models::analyse(scenario.cluster);
  const auto working = models::settings_that_work(scenario.cluster, topology, nodes_with_ranks(scenario));
  text += "# NCCL 2.30.7 without the plugin: ";
  if (!working) return text + "no setting reaches every neighbour on this cabling\n";
  return text + (working->text.empty() ? "no setting is needed for neighbours" : working->text + " for neighbours") +
         "; it does not relay (meshbed topo rules)\n";
}

}  // namespace meshbed::testbed

// Routers that the file lists: the switches that they join, the subnets whose gateway they are, and the routes of NICs.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "models/lan/bond.h"
#include "models/lan/router.h"
#include "models/topology_generate.h"
#include "testbed/base/closest_name.h"
#include "testbed/scenario/builder.h"

namespace meshbed::testbed {
namespace {

template <typename Thing>
std::string listed_names(const std::vector<Thing>& things) {
  std::vector<std::string> names;
  for (const Thing& thing : things) names.push_back(thing.name);
  return list_names(names);
}

/// Of the routers that join the switch.
std::string router_names(const models::Cluster& cluster, int box) {
  std::vector<std::string> names;
  for (const models::Router& router : cluster.routers) {
    if (models::joins(router, box)) names.push_back(router.name);
  }
  return list_names(names);
}

std::string switch_names(const models::Cluster& cluster, const models::Router& router) {
  std::vector<std::string> names;
  for (const int box : router.switches) names.push_back(cluster.switches[static_cast<std::size_t>(box)].name);
  return list_names(names);
}

/// [node][nic] as models::switches_of_ports(), a bond's first function on the switch that any of its functions is on.
std::vector<std::vector<int>> switches_of_nics(const models::Cluster& cluster) {
  std::vector<std::vector<int>> places = models::switches_of_ports(cluster);
  for (std::size_t node = 0; node < places.size(); ++node) {
    const auto place = [&](int nic) -> int& { return places[node][static_cast<std::size_t>(nic)]; };
    for (const models::Bond& bond : cluster.nodes[node].bonds) {
      int& first = place(bond.functions.front());
      for (const int nic : bond.functions) first = first >= 0 ? first : place(nic);
    }
  }
  return places;
}

/// What hangs on the switch, in order of its ports: of a RoCE LAG its device, once.
std::vector<models::PortRef> devices_on(const models::Cluster& cluster, const models::Switch& box) {
  std::vector<models::PortRef> devices;
  for (const models::PortRef port : box.ports) {
    const models::PortRef device = models::device_of(cluster, port);
    const bool may_be_there = models::bond_of(cluster, port) != nullptr;
    if (may_be_there && std::find(devices.begin(), devices.end(), device) != devices.end()) continue;
    devices.push_back(device);
  }
  return devices;
}

/// A switch's subnet of one family, as its ports' addresses have it, and the router's address there.
struct RoutedSubnet {
  int box = -1;
  models::IpPrefix prefix;
  models::IpAddress gateway;
};

/// The last host of the subnet that no port of the switch has; nullopt: there is none.
std::optional<models::IpAddress> free_host(const models::IpPrefix& subnet, const std::set<models::IpAddress>& taken) {
  // The two addresses of a /31 or /127 are two hosts (RFC 3021, RFC 6164).
  const std::uint64_t first = subnet.length_bits % 32 == 31 && models::host_capacity(subnet) == 2 ? 0 : 1;
  for (std::uint64_t host = models::host_capacity(subnet) + 1; host-- > first;) {
    const auto address = models::host_in_subnet(subnet, 0, host);
    if (!address || models::is_network_or_broadcast(*address)) continue;
    if (taken.count(address->address) == 0) return address->address;
  }
  return std::nullopt;
}

}  // namespace

std::optional<models::Router> Builder::router_of(const RouterSpec& spec, const std::string& name) {
  const models::Cluster& cluster = built_.cluster;
  models::Router router{
      .name = name,
      .switches = {},
      .rate_bps = spec.has("rate") ? spec.rate_bps : spec_.topology.rate_bps,
      .latency_ps = spec.has("latency") ? spec.latency_ps : spec_.topology.switch_latency_ps,
      .propagation_ps = spec.has("cable_latency") ? spec.cable_latency_ps : spec_.topology.latency_ps};
  for (const Located<std::string>& said : spec.joins) {
    const int box = find_named(cluster.switches, said.value);
    if (box >= 0 && !cluster.switches[static_cast<std::size_t>(box)].boxes.empty()) {
      diagnostics_.add(said.place,
                       fmt::format("joins: {} consists of several boxes, and a router joins switches of one; "
                                   "leave its boxes out, or the router",
                                   said.value));
      return std::nullopt;
    }
    if (box >= 0 && !models::joins(router, box)) {
      router.switches.push_back(box);
      continue;
    }
    diagnostics_.add(said.place, box >= 0 ? fmt::format("joins: '{}' is listed twice", said.value)
                                          : fmt::format("joins: there is no switch '{}'; a router joins switches, and "
                                                        "a NIC of its own is one on a switch with that port alone: {}",
                                                        said.value.substr(0, 64), listed_names(cluster.switches)));
    return std::nullopt;
  }
  if (router.switches.size() < 2) {
    diagnostics_.add(spec.at("joins"),
                     fmt::format("joins: {} needs two switches or more, as in [\"switch0\", \"switch1\"]; each VLAN of "
                                 "one switch is a [[switch]]",
                                 name));
    return std::nullopt;
  }
  return router;
}

void Builder::add_routers() {
  models::Cluster& cluster = built_.cluster;
  std::set<std::string> listed;
  std::vector<const RouterSpec*> specs;
  for (const RouterSpec& spec : spec_.routers) {
    const std::string name = spec.has("name") ? spec.name : fmt::format("router{}", cluster.routers.size());
    if (name == "none" || find_named(cluster.switches, name) >= 0) {
      diagnostics_.add(spec.at("name"), name == "none"
                                            ? "name: a NIC whose gateway is 'none' has none; take another name"
                                            : fmt::format("name: '{}' is a switch", name));
      continue;
    }
    if (!listed.insert(name).second) {
      diagnostics_.add(spec.at("name"), fmt::format("name: two [[router]] are called '{}'", name));
      continue;
    }
    if (auto router = router_of(spec, name)) {
      cluster.routers.push_back(std::move(*router));
      specs.push_back(&spec);
    }
  }
  choose_gateways();
  for (std::size_t index = 0; index < specs.size(); ++index) give_routes(static_cast<int>(index), *specs[index]);
}

void Builder::choose_gateways() {
  models::Cluster& cluster = built_.cluster;
  const std::vector<std::vector<int>> places = switches_of_nics(cluster);
  for (std::size_t node = 0; node < cluster.nodes.size(); ++node) {
    for (std::size_t nic = 0; nic < cluster.nodes[node].nics.size(); ++nic) {
      const int box = places[node][nic];
      const models::PortRef port{static_cast<int>(node), static_cast<int>(nic)};
      const models::Bond* const bond = models::bond_of(cluster, port);
      if (bond != nullptr && bond->functions.front() != port.nic) continue;  // as the first
      if (box < 0 || cluster.nodes[node].nics[nic].vlan != 0) continue;
      std::vector<int> joining;
      for (std::size_t router = 0; router < cluster.routers.size(); ++router) {
        if (models::joins(cluster.routers[router], box)) joining.push_back(static_cast<int>(router));
      }
      cluster.nodes[node].nics[nic].router = joining.size() == 1 ? joining.front() : joining.empty() ? -1 : kSeveral;
    }
  }
  for (const NodeSpec& spec : spec_.nodes) {
    const auto found = node_index_.find(spec.name);
    if (found == node_index_.end()) continue;
    for (const NicSpec& said : spec.nics) {
      const int nic = find_nic(node_at(found->second), said.device);
      if (nic < 0) continue;
      set_gateway({found->second, nic}, places[static_cast<std::size_t>(found->second)][static_cast<std::size_t>(nic)],
                  said);
    }
  }
  for (std::size_t node = 0; node < cluster.nodes.size(); ++node) {
    for (std::size_t nic = 0; nic < cluster.nodes[node].nics.size(); ++nic) {
      models::Nic& one = cluster.nodes[node].nics[nic];
      if (one.router != kSeveral) continue;
      one.router = -1;
      diagnostics_.add(
          built_.nic_places[node][nic],
          fmt::format("gateway: {}/{} is on a switch that several routers join ({}): say which one is its "
                      "gateway, or \"none\"",
                      cluster.nodes[node].name, models::function_name(one), router_names(cluster, places[node][nic])));
    }
    for (const models::Bond& bond : cluster.nodes[node].bonds) {
      const int router = nic_at({static_cast<int>(node), bond.functions.front()}).router;
      for (const int function : bond.functions) nic_at({static_cast<int>(node), function}).router = router;
    }
  }
}

void Builder::set_gateway(models::PortRef port, int box, const NicSpec& said) {
  const models::Cluster& cluster = built_.cluster;
  models::Nic& nic = nic_at(port);
  const std::string name = node_at(port.node).name + "/" + models::function_name(nic);
  if (said.has("gateway")) {
    nic.router = -1;
    if (said.gateway != "none") {
      const int router = find_named(cluster.routers, said.gateway);
      if (router < 0) {
        diagnostics_.add(said.at("gateway"),
                         fmt::format("gateway: there is no router '{}' for {}; there are: {}",
                                     said.gateway.substr(0, 64), name, listed_names(cluster.routers)));
        return;
      }
      if (box < 0 || !models::joins(cluster.routers[static_cast<std::size_t>(router)], box)) {
        diagnostics_.add(said.at("gateway"),
                         fmt::format("gateway: {} is on none of the switches that {} joins: {}", name, said.gateway,
                                     switch_names(cluster, cluster.routers[static_cast<std::size_t>(router)])));
        return;
      }
      if (nic.vlan != 0) {
        diagnostics_.add(said.at("gateway"),
                         fmt::format("gateway: {} is in VLAN {}, and a router's ports are in none: leave the VLAN out, "
                                     "and make it a [[switch]] of its own",
                                     name, nic.vlan));
        return;
      }
      nic.router = router;
    }
  }
  if (!said.has("gateway_table")) return;
  nic.policy_routed = said.gateway_table == "policy";
  if (nic.router == -1) {
    diagnostics_.add(said.at("gateway_table"),
                     fmt::format("gateway_table: {} has no router as its gateway, so that it does nothing", name));
  }
}

void Builder::give_routes(int index, const RouterSpec& spec) {
  models::Cluster& cluster = built_.cluster;
  const models::Router& router = cluster.routers[static_cast<std::size_t>(index)];
  std::vector<RoutedSubnet> subnets;
  for (const int box : router.switches) {
    const models::Switch& one = cluster.switches[static_cast<std::size_t>(box)];
    const std::vector<models::PortRef> devices = devices_on(cluster, one);
    std::set<models::IpAddress> taken;
    for (const models::PortRef& port : devices) {
      for (const models::IpPrefix& prefix : nic_at(port).addresses) taken.insert(prefix.address);
    }
    std::map<models::Family, models::IpPrefix> own;
    for (const models::PortRef& port : devices) {
      if (nic_at(port).vlan != 0) continue;  // the router has no part in it
      for (const models::IpPrefix& prefix : nic_at(port).addresses) {
        const auto [first, is_new] = own.emplace(prefix.address.family, prefix);
        if (models::same_subnet(first->second, prefix)) continue;
        diagnostics_.add(spec.at("joins"),
                         fmt::format("joins: {} has two subnets, {} and {} ({}/{}), and {} routes between switches of "
                                     "one each: make them two [[switch]], as VLANs are",
                                     one.name, subnet_text(first->second), subnet_text(prefix), node_at(port.node).name,
                                     nic_at(port).device, router.name));
        return;
      }
    }
    for (const auto& [family, prefix] : own) {
      const auto gateway = free_host(prefix, taken);
      if (!gateway) {
        diagnostics_.add(spec.at("joins"),
                         fmt::format("joins: {} of {} has no address left for {}: take a shorter prefix",
                                     subnet_text(prefix), one.name, router.name));
        return;
      }
      subnets.push_back({.box = box, .prefix = prefix, .gateway = *gateway});
    }
  }
  for (const RoutedSubnet& own : subnets) {
    for (const models::PortRef& port : devices_on(cluster, cluster.switches[static_cast<std::size_t>(own.box)])) {
      if (nic_at(port).router != index) continue;
      models::Nic& nic = nic_at(port);
      const bool is_in = std::any_of(nic.addresses.begin(), nic.addresses.end(),
                                     [&](const models::IpPrefix& prefix) { return contains(prefix, own.gateway); });
      for (const RoutedSubnet& other : subnets) {
        if (!is_in || other.box == own.box || other.prefix.address.family != own.prefix.address.family) continue;
        nic.routes.push_back({.destination = *models::read_prefix(subnet_text(other.prefix)), .gateway = own.gateway});
      }
    }
  }
}

}  // namespace meshbed::testbed

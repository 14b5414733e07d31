#include "testbed/scenario/build.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "models/gid_table.h"
#include "models/lan/bond.h"
#include "testbed/base/closest_name.h"
#include "testbed/base/units.h"
#include "testbed/scenario/builder.h"

namespace meshbed::testbed {

int find_node(const models::Cluster& cluster, const std::string& name) { return find_named(cluster.nodes, name); }

int find_nic(const models::Node& node, const std::string& device) {
  for (std::size_t i = 0; i < node.nics.size(); ++i) {
    const models::Nic& nic = node.nics[i];
    if (nic.device == device || (!nic.function.empty() && nic.function == device)) return static_cast<int>(i);
  }
  return -1;
}

std::vector<std::string> node_names(const models::Cluster& cluster) {
  std::vector<std::string> names;
  for (const auto& node : cluster.nodes) names.push_back(node.name);
  return names;
}

std::vector<std::string> device_names(const models::Node& node) {
  std::vector<std::string> names;
  for (const auto& nic : node.nics) names.push_back(nic.device);
  return names;
}

void Builder::generate() {
  const TopologySpec& topology = spec_.topology;
  if (topology.kind == "none") {
    for (const char* key : {"nodes", "nics", "rails", "shape", "first_subnet", "leaves", "spines", "oversubscription",
                            "arity", "groups", "boxes", "uplinks", "uplink_rate"}) {
      if (topology.has(key)) {
        diagnostics_.add(topology.at(key),
                         fmt::format("{} does nothing without topology.kind = \"ring\" or the like", key));
      }
    }
    return;
  }
  static const std::map<std::string, models::TopologyKind> kKinds = {
      {"ring", models::TopologyKind::kRing},          {"line", models::TopologyKind::kLine},
      {"full-mesh", models::TopologyKind::kFullMesh}, {"star", models::TopologyKind::kStar},
      {"switch", models::TopologyKind::kSwitch},      {"torus", models::TopologyKind::kTorus}};
  const bool is_fabric = is_fabric_kind(topology.kind);
  models::TopologyOptions options{.kind = is_fabric ? models::TopologyKind::kSwitch : kKinds.at(topology.kind),
                                  .nodes = topology.nodes,
                                  .shape = topology.shape,
                                  .nics = topology.nics,
                                  .rails = topology.rails,
                                  .rate_bps = topology.rate_bps,
                                  .latency_ps = topology.latency_ps,
                                  .switch_latency_ps = topology.switch_latency_ps,
                                  .mtu_bytes = topology.mtu_bytes,
                                  .first_subnet = topology.first_subnet,
                                  .functions = layout_of(topology)};
  if (options.kind == models::TopologyKind::kTorus && !topology.has("nodes")) {
    std::int64_t product = 1;
    for (const int length : topology.shape) product = std::min(product * length, models::kNodesMax + 1);
    options.nodes = static_cast<int>(product);
  } else if (!topology.has("nodes") && fabric_nodes(topology) > 0) {
    options.nodes = fabric_nodes(topology);
  } else if (!topology.has("nodes")) {
    return diagnostics_.add(topology.place, fmt::format("[topology] kind = \"{}\" needs nodes", topology.kind));
  }
  if (options.kind != models::TopologyKind::kTorus && topology.has("shape")) {
    diagnostics_.add(topology.at("shape"), "shape is for kind = \"torus\"");
  }
  if (!check_fabric_keys()) return;
  auto generated = models::generate_topology(options);
  if (!generated) {
    const bool as_spark = options.functions != models::NicLayout::kSeparate;
    const char* key = as_spark && topology.has("functions")   ? "functions"
                      : as_spark && topology.has("gpu_model") ? "gpu_model"
                      : topology.has("nics")                  ? "nics"
                                                              : "nodes";
    return diagnostics_.add(topology.at(topology.has(key) ? key : "kind"), generated.error().text);
  }
  built_.cluster = std::move(*generated);
  if (is_fabric) join_generated_boxes();
  generated_nodes_ = built_.cluster.nodes.size();
  built_.node_places.assign(generated_nodes_, topology.place);
  for (std::size_t i = 0; i < generated_nodes_; ++i) {
    built_.nic_places.emplace_back(built_.cluster.nodes[i].nics.size(), topology.place);
    node_index_.emplace(built_.cluster.nodes[i].name, static_cast<int>(i));
  }
  built_.cable_places.assign(built_.cluster.cables.size(), topology.place);
  built_.switch_places.assign(built_.cluster.switches.size(), topology.place);
  cable_rate_places_.assign(built_.cluster.cables.size(), nullptr);
}

namespace {

/// Adds the names that the file itself lists; an entry that a --set made is no name to propose.
template <typename Spec>
void add_listed(std::vector<std::string>& names, const std::vector<Spec>& listed, std::string Spec::*name) {
  for (const Spec& spec : listed) {
    const bool by_set = spec.place.path && spec.place.path->rfind(kOverridePrefix, 0) == 0;
    const bool is_known = std::find(names.begin(), names.end(), spec.*name) != names.end();
    if (!by_set && !is_known && !(spec.*name).empty()) names.push_back(spec.*name);
  }
}

template <typename Part>
std::vector<std::string> generated_names(const std::vector<Part>& parts) {
  std::vector<std::string> names;
  for (const Part& part : parts) names.push_back(part.name);
  return names;
}

}  // namespace

std::vector<std::string> Builder::names_for(const GeneratedName& wanted) const {
  const models::Cluster& cluster = built_.cluster;
  std::vector<std::string> names;
  if (wanted.list == "cable") {
    names = generated_names(cluster.cables);
    add_listed(names, spec_.cables, &CableSpec::name);
  } else if (wanted.list == "switch") {
    names = generated_names(cluster.switches);
    add_listed(names, spec_.switches, &SwitchSpec::name);
  } else if (wanted.list == "router") {
    add_listed(names, spec_.routers, &RouterSpec::name);
  } else if (wanted.list == "node") {
    names = generated_names(cluster.nodes);
    add_listed(names, spec_.nodes, &NodeSpec::name);
  } else {
    const bool is_pcie = wanted.list == "pcie", is_bond = wanted.list == "bond";
    if (const int node = find_node(cluster, wanted.owner); node >= 0) {
      const models::Node& owner = cluster.at(node);
      if (is_pcie) names = generated_names(owner.pcie);
      if (!is_pcie && !is_bond) names = device_names(owner);
    }
    for (const NodeSpec& spec : spec_.nodes) {
      if (spec.name != wanted.owner) continue;
      if (is_pcie) add_listed(names, spec.pcie, &PcieSpec::name);
      if (is_bond) add_listed(names, spec.bonds, &BondSpec::name);
      if (!is_pcie && !is_bond) add_listed(names, spec.nics, &NicSpec::device);
    }
  }
  return names;
}

void Builder::refuse_unknown_names() {
  std::set<std::string> refused_nodes;  // their NICs are not looked up
  for (const GeneratedName& wanted : spec_.generated_names) {
    const bool is_nic = wanted.list == "nic" || wanted.list == "pcie" || wanted.list == "bond";  // a part of a node
    if (is_nic && refused_nodes.count(wanted.owner) != 0) continue;
    const std::vector<std::string> names = names_for(wanted);
    if (std::find(names.begin(), names.end(), wanted.name) != names.end()) continue;
    if (wanted.list == "node") refused_nodes.insert(wanted.name);
    const std::string what = wanted.list == "nic" ? "NIC" : wanted.list == "pcie" ? "PCIe link" : wanted.list;
    const std::string name = wanted.name.substr(0, 64);
    const std::string close = closest_name(name, names);
    diagnostics_.add(wanted.place, fmt::format("there is no {} '{}'{}{}; --set changes {} that are there: {}", what,
                                               name, is_nic ? " on " + wanted.owner : "",
                                               close.empty() ? "" : fmt::format(" (did you mean '{}'?)", close),
                                               what + (wanted.list == "switch" ? "es" : "s"), list_names(names)));
  }
}

void Builder::add_environment() {
  std::map<std::string, std::string> shared(spec_.environment.begin(), spec_.environment.end());
  for (auto& node : built_.cluster.nodes) node.environment.assign(shared.begin(), shared.end());
  for (const auto& node_spec : spec_.nodes) {
    const auto found = node_index_.find(node_spec.name);
    if (found == node_index_.end()) continue;
    auto merged = shared;
    for (const auto& [variable, value] : node_spec.environment) merged[variable] = value;
    node_at(found->second).environment.assign(merged.begin(), merged.end());
  }
}

void Builder::add_management() {
  const ManagementSpec& management = spec_.management;
  if (!management.enabled) return;
  built_.cluster.management = models::ManagementNetwork{management.rate_bps, management.latency_ps};
  if (models::host_capacity(management.subnet) < built_.cluster.nodes.size()) {
    return diagnostics_.add(
        management.at("subnet"),
        fmt::format("[management] subnet {} has room for {} nodes, not for {}", subnet_text(management.subnet),
                    models::host_capacity(management.subnet), built_.cluster.nodes.size()));
  }
  for (std::size_t i = 0; i < built_.cluster.nodes.size(); ++i) {
    const auto address = models::host_in_subnet(management.subnet, 0, i + 1);
    if (!address) return diagnostics_.add(management.at("subnet"), address.error().text);
    built_.cluster.nodes[i].management = models::ManagementPort{management.netdev, *address};
  }
  for (const auto& node_spec : spec_.nodes) {
    const auto found = node_index_.find(node_spec.name);
    if (found == node_index_.end() || !node_spec.has("management")) continue;
    const models::IpPrefix own{node_spec.management, management.subnet.length_bits};
    if (!contains(management.subnet, own.address) || models::is_network_or_broadcast(own)) {
      diagnostics_.add(node_spec.at("management"),
                       fmt::format("management: {} is not a host address of the management subnet {}",
                                   to_text(own.address), subnet_text(management.subnet)));
    } else {
      node_at(found->second).management->address = own;
    }
  }
}

/// Reorders the NICs of one node: `order[i]` is the old index of the new i-th NIC.
void Builder::permute_nics(int node, const std::vector<int>& order) {
  auto& nics = node_at(node).nics;
  auto& places = built_.nic_places[static_cast<std::size_t>(node)];
  std::vector<models::Nic> new_nics;
  std::vector<Place> new_places;
  std::vector<int> new_index(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto old = static_cast<std::size_t>(order[i]);
    new_nics.push_back(std::move(nics[old]));
    new_places.push_back(places[old]);
    new_index[old] = static_cast<int>(i);
  }
  nics = std::move(new_nics);
  places = std::move(new_places);
  const auto follow = [&](models::PortRef& port) {
    if (port.node == node) port.nic = new_index[static_cast<std::size_t>(port.nic)];
  };
  for (auto& cable : built_.cluster.cables) {
    follow(cable.a);
    follow(cable.b);
  }
  for (auto& box : built_.cluster.switches) {
    for (auto& port : box.ports) follow(port);
  }
  for (auto& bond : node_at(node).bonds) {
    for (int& nic : bond.functions) nic = new_index[static_cast<std::size_t>(nic)];
  }
}

void Builder::order_devices() {
  for (const auto& node_spec : spec_.nodes) {
    const auto found = node_index_.find(node_spec.name);
    if (found == node_index_.end() || !node_spec.has("device_order")) continue;
    const models::Node& node = node_at(found->second);
    std::vector<int> order;
    if (node_spec.device_order_reversed) {
      for (int i = static_cast<int>(node.nics.size()); i-- > 0;) order.push_back(i);
    }
    for (const auto& device : node_spec.device_order) {
      const int nic = find_nic(node, device.value);
      if (nic < 0 || std::find(order.begin(), order.end(), nic) != order.end()) {
        diagnostics_.add(device.place, fmt::format("device_order: '{}' {}; {} has: {}", device.value,
                                                   nic < 0 ? "is not a NIC of this node" : "is listed twice", node.name,
                                                   list_names(device_names(node))));
        continue;
      }
      order.push_back(nic);
    }
    // Those that are not listed come behind, in their own order.
    for (int i = 0; i < static_cast<int>(node.nics.size()); ++i) {
      if (std::find(order.begin(), order.end(), i) == order.end()) order.push_back(i);
    }
    permute_nics(found->second, order);
  }
}

void Builder::derive() {
  auto& cluster = built_.cluster;
  for (std::size_t i = 0; i < cluster.cables.size(); ++i) {
    auto& cable = cluster.cables[i];
    if (cable.a.node < 0 || cable.b.node < 0) continue;
    const std::uint64_t ports_bps = std::min(nic_at(cable.a).rate_bps, nic_at(cable.b).rate_bps);
    if (cable_rate_places_[i] == nullptr) {
      cable.rate_bps = ports_bps;
    } else if (cable.rate_bps > ports_bps) {
      diagnostics_.add(*cable_rate_places_[i], fmt::format("rate: {} is more than its ports have ({})",
                                                           rate_text(cable.rate_bps), rate_text(ports_bps)));
    }
  }
  // GIDs hold the MAC address, which holds the NIC's index: only after device_order has settled it.
  for (std::size_t node = 0; node < cluster.nodes.size(); ++node) {
    auto& nics = cluster.nodes[node].nics;
    for (std::size_t nic = 0; nic < nics.size(); ++nic) {
      // The GIDs of a bond are at the function that carries its addresses; the others have none.
      const models::PortRef port{static_cast<int>(node), static_cast<int>(nic)};
      const models::Bond* const bond = models::bond_of(cluster, port);
      if (!nics[nic].gids.empty() || (bond != nullptr && bond->functions.front() != port.nic)) continue;
      nics[nic].gids = models::linux_gid_table(port, nics[nic].addresses, nics[nic].vlan);
    }
  }
}

Built build_cluster(const ScenarioSpec& spec, Diagnostics& diagnostics) {
  Builder builder(spec, diagnostics);
  builder.generate();
  if (diagnostics.empty()) {
    builder.refuse_unknown_names();
    if (!diagnostics.empty()) return builder.take();
  }
  builder.add_nodes();
  builder.join_functions_to_ports();
  builder.add_cables();
  builder.add_wires();
  builder.add_switches();
  builder.add_gpus();
  builder.add_pcie();
  builder.add_environment();
  builder.add_management();
  builder.order_devices();
  builder.add_bonds();
  builder.add_routers();
  builder.derive();
  return builder.take();
}

}  // namespace meshbed::testbed

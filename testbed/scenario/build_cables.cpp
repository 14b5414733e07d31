// Cables and switches that the file lists, new ones and changes to generated ones; the boxes of switched networks.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "models/lan/trunks.h"
#include "testbed/base/closest_name.h"
#include "testbed/scenario/builder.h"

namespace meshbed::testbed {

std::optional<models::PortRef> Builder::resolve(const Located<std::string>& end) {
  const auto slash = end.value.find('/');
  const std::string node_name = end.value.substr(0, slash);
  const auto found = node_index_.find(node_name);
  if (found == node_index_.end()) {
    diagnostics_.add(end.place, fmt::format("'{}': there is no node '{}'; nodes are: {}", end.value.substr(0, 80),
                                            node_name.substr(0, 64), list_names(node_names(built_.cluster))));
    return std::nullopt;
  }
  const models::Node& node = node_at(found->second);
  const std::string device = slash == std::string::npos ? "" : end.value.substr(slash + 1);
  const int nic = find_nic(node, device);
  if (nic < 0) {
    diagnostics_.add(
        end.place, fmt::format("'{}': {}; {} has: {}", end.value.substr(0, 80),
                               device.empty() ? "expects NODE/DEVICE" : fmt::format("there is no such NIC"), node.name,
                               list_names(device_names(node))));
    return std::nullopt;
  }
  return models::PortRef{found->second, nic};
}

std::optional<std::pair<models::PortRef, models::PortRef>> Builder::resolve_ends(const CableSpec& spec) {
  if (spec.ends.size() != 2) {
    diagnostics_.add(spec.at("ends"),
                     "ends: a [[cable]] has two ends, as in [\"node0/rocep1s0f0\", \"node1/rocep1s0f1\"]");
    return std::nullopt;
  }
  const auto a = resolve(spec.ends[0]);
  const auto b = resolve(spec.ends[1]);
  if (!a || !b) return std::nullopt;
  if (*a == *b) {
    diagnostics_.add(spec.ends[1].place, fmt::format("ends: both are '{}'", spec.ends[0].value));
    return std::nullopt;
  }
  return std::pair{*a, *b};
}

void Builder::number_ports(const std::vector<models::PortRef>& ports, const models::IpPrefix& subnet,
                           const Place& place, const std::string& owner) {
  std::set<models::IpAddress> taken;
  // Functions of one QSFP port may be in one subnet, and stand on two cables of the file.
  for (const MediumSubnet& other : medium_subnets_) {
    if (other.is_switch || !models::same_subnet(other.subnet, subnet)) continue;
    for (const auto& port : ports_of(other)) {
      for (const auto& address : nic_at(port).addresses) taken.insert(address.address);
    }
  }
  for (const auto& port : ports) {
    for (const auto& address : nic_at(port).addresses) {
      taken.insert(address.address);
      if (contains(subnet, address.address)) continue;
      diagnostics_.add(place, fmt::format("subnet: {} of {}/{} is outside {}'s prefix {}", to_text(address),
                                          node_at(port.node).name, nic_at(port).device, owner, subnet_text(subnet)));
    }
  }
  const bool has_network_address = models::host_capacity(subnet) != 2 || subnet.length_bits % 32 != 31;
  std::uint64_t host = has_network_address ? 1 : 0;
  for (const auto& port : ports) {
    if (!nic_at(port).addresses.empty()) continue;
    for (bool placed = false; !placed; ++host) {
      const auto address = models::host_in_subnet(subnet, 0, host);
      if (!address || models::is_network_or_broadcast(*address)) {
        return diagnostics_.add(place,
                                fmt::format("subnet: {} has too few addresses for {}", subnet_text(subnet), owner));
      }
      placed = taken.insert(address->address).second;
      if (placed) nic_at(port).addresses = {*address};
    }
  }
}

void Builder::add_cables() {
  auto& cables = built_.cluster.cables;
  std::set<std::string> listed;
  for (const auto& spec : spec_.cables) {
    const std::string name = spec.has("name") ? spec.name : fmt::format("cable{}", cables.size());
    if (!listed.insert(name).second) {
      diagnostics_.add(spec.at("name"), fmt::format("name: two [[cable]] are called '{}'", name));
      continue;
    }
    int index = find_named(cables, name);
    if (index < 0 && !spec.has("ends")) {
      diagnostics_.add(spec.place,
                       cables.empty()
                           ? "[[cable]] needs ends"
                           : fmt::format("[[cable]] '{}' needs ends, or the name of a generated cable", name));
      continue;
    }
    if (index < 0) {
      const auto ends = resolve_ends(spec);
      if (!ends) continue;
      index = static_cast<int>(cables.size());
      cables.push_back({.name = name,
                        .a = ends->first,
                        .b = ends->second,
                        .rate_bps = 0,
                        .propagation_ps = spec_.topology.latency_ps});
      built_.cable_places.push_back(spec.place);
      cable_rate_places_.push_back(nullptr);
    } else if (spec.has("ends")) {
      const auto ends = resolve_ends(spec);
      if (!ends) continue;
      cables[static_cast<std::size_t>(index)].a = ends->first;
      cables[static_cast<std::size_t>(index)].b = ends->second;
    }
    const auto place = static_cast<std::size_t>(index);
    built_.cable_places[place] = spec.place;
    models::Cable& cable = cables[place];
    if (spec.has("rate")) {
      cable.rate_bps = spec.rate_bps;
      cable_rate_places_[place] = &spec.at("rate");
    }
    if (spec.has("latency")) cable.propagation_ps = spec.latency_ps;
    if (!spec.has("subnet")) continue;
    number_ports({cable.a, cable.b}, spec.subnet, spec.at("subnet"), name);
    medium_subnets_.push_back({false, place, spec.subnet, spec.at("subnet"), name});
  }
}

void Builder::add_switches() {
  auto& switches = built_.cluster.switches;
  std::set<std::string> listed;
  for (const auto& spec : spec_.switches) {
    const std::string name = spec.has("name") ? spec.name : fmt::format("switch{}", switches.size());
    if (!listed.insert(name).second) {
      diagnostics_.add(spec.at("name"), fmt::format("name: two [[switch]] are called '{}'", name));
      continue;
    }
    int index = find_named(switches, name);
    if (index < 0) {
      index = static_cast<int>(switches.size());
      switches.push_back({.name = name,
                          .ports = {},
                          .rate_bps = spec_.topology.rate_bps,
                          .latency_ps = spec_.topology.switch_latency_ps,
                          .propagation_ps = spec_.topology.latency_ps});
      built_.switch_places.push_back(spec.place);
    }
    models::Switch& box = switches[static_cast<std::size_t>(index)];
    built_.switch_places[static_cast<std::size_t>(index)] = spec.place;
    add_boxes(box, spec);
    if (spec.has("ports")) box.ports.clear();
    for (const auto& end : spec.ports) {
      if (const auto port = resolve(end)) box.ports.push_back(*port);
    }
    if (spec.has("rate")) box.rate_bps = spec.rate_bps;
    if (spec.has("latency")) box.latency_ps = spec.latency_ps;
    if (spec.has("cable_latency")) box.propagation_ps = spec.cable_latency_ps;
    if (spec.has("mtu")) box.mtu_bytes = spec.mtu_bytes;
    if (!spec.has("subnet")) continue;
    number_ports(box.ports, spec.subnet, spec.at("subnet"), name);
    medium_subnets_.push_back({true, static_cast<std::size_t>(index), spec.subnet, spec.at("subnet"), name});
  }
  check_switch_ports();
}

void Builder::check_switch_ports() {
  std::set<models::PortRef> plugged;
  for (const auto& box : built_.cluster.switches) plugged.insert(box.ports.begin(), box.ports.end());
  for (const NodeSpec& node : spec_.nodes) {
    const auto found = node_index_.find(node.name);
    if (found == node_index_.end()) continue;
    for (const NicSpec& nic : node.nics) {
      const int index = find_nic(node_at(found->second), nic.device);
      if (!nic.has("switch_mtu") || index < 0 || plugged.count({found->second, index}) != 0) continue;
      diagnostics_.add(nic.at("switch_mtu"),
                       fmt::format("switch_mtu: {}/{} is on no switch; list it in the ports of a [[switch]], or leave "
                                   "switch_mtu out (the NIC's own is mtu)",
                                   node.name, nic.device));
    }
  }
}

// Switched networks of several boxes: generated fabrics, and those that the file lists.

namespace {

/// The keys of [topology] that only some kinds read.
struct FabricKey {
  const char* key;
  std::vector<const char*> kinds;
};
const std::vector<FabricKey>& fabric_keys() {
  static const std::vector<FabricKey> keys{{"leaves", {"leaf-spine", "rail-optimised"}},
                                           {"spines", {"leaf-spine", "rail-optimised"}},
                                           {"oversubscription", {"leaf-spine", "rail-optimised", "fat-tree"}},
                                           {"arity", {"fat-tree"}},
                                           {"groups", {"dragonfly"}},
                                           {"boxes", {"dragonfly"}},
                                           {"uplinks", {"leaf-spine", "rail-optimised", "dragonfly"}},
                                           {"uplink_rate", {"leaf-spine", "rail-optimised", "fat-tree", "dragonfly"}}};
  return keys;
}

models::FabricKind fabric_kind(const std::string& kind) {
  if (kind == "fat-tree") return models::FabricKind::kFatTree;
  return kind == "dragonfly" ? models::FabricKind::kDragonfly : models::FabricKind::kLeafSpine;
}

}  // namespace

bool is_fabric_kind(const std::string& kind) {
  return kind == "leaf-spine" || kind == "rail-optimised" || kind == "fat-tree" || kind == "dragonfly";
}

int fabric_nodes(const TopologySpec& topology) {
  if (topology.kind != "fat-tree") return 0;
  const std::int64_t nodes =
      models::fat_tree_nodes({.oversubscription = topology.oversubscription.value_or(0), .arity = topology.arity});
  return static_cast<int>(std::min<std::int64_t>(nodes, models::kNodesMax + 1));
}

bool Builder::check_fabric_keys() {
  const TopologySpec& topology = spec_.topology;
  bool fits = true;
  const auto refuse = [&](const char* key, const std::string& text) {
    diagnostics_.add(topology.at(key), text);
    fits = false;
  };
  for (const FabricKey& each : fabric_keys()) {
    const bool is_read = std::find(each.kinds.begin(), each.kinds.end(), topology.kind) != each.kinds.end();
    if (topology.has(each.key) && !is_read) {
      refuse(each.key, fmt::format("{} goes with kind = \"{}\"", each.key, fmt::join(each.kinds, "\" or \"")));
    }
  }
  if (topology.has("spines") && topology.has("oversubscription") && topology.kind != "fat-tree") {
    refuse("oversubscription", "spines says how many uplinks a leaf has; leave one of the two out");
  }
  if (is_fabric_kind(topology.kind) && topology.kind != "rail-optimised" && topology.rails > 1) {
    refuse("rails",
           fmt::format("a {} joins one NIC of each node; say kind = \"rail-optimised\", which has a leaf-spine "
                       "network for each rail",
                       topology.kind));
  }
  return fits;
}

void Builder::join_generated_boxes() {
  const TopologySpec& topology = spec_.topology;
  auto& switches = built_.cluster.switches;
  for (std::size_t index = 0; index < switches.size(); ++index) {
    const models::FabricOptions options{
        .kind = fabric_kind(topology.kind),
        .leaves = topology.leaves,
        .spines = topology.spines,
        .oversubscription = topology.oversubscription.value_or(0),
        .arity = topology.arity,
        .groups = topology.groups,
        .boxes = topology.boxes,
        .uplinks = topology.uplinks,
        .uplink_rate_bps = topology.has("uplink_rate") ? topology.uplink_rate_bps : topology.rate_bps};
    const std::string prefix = switches.size() > 1 ? fmt::format("rail{}-", index) : "";
    const auto joined = models::join_boxes(switches[index], options, prefix);
    if (joined) continue;
    const std::string key = joined.error().text.substr(0, joined.error().text.find(':'));
    return diagnostics_.add(topology.at(topology.has(key.c_str()) ? key.c_str() : "kind"), joined.error().text);
  }
}

std::optional<int> Builder::box_named(const models::Switch& network, const Located<std::string>& end) {
  const auto found = std::find(network.boxes.begin(), network.boxes.end(), end.value);
  if (found != network.boxes.end()) return static_cast<int>(found - network.boxes.begin());
  const std::string close = closest_name(end.value, network.boxes);
  diagnostics_.add(end.place,
                   fmt::format("ends: {} has no box '{}'{}; it has: {}", network.name, end.value.substr(0, 64),
                               close.empty() ? "" : ", did you mean '" + close + "'?", list_names(network.boxes)));
  return std::nullopt;
}

void Builder::add_boxes(models::Switch& network, const SwitchSpec& spec) {
  if (spec.boxes.empty() && spec.trunks.empty()) {
    if (spec.has("ports") && !network.boxes.empty()) {
      diagnostics_.add(spec.at("ports"),
                       fmt::format("ports: {} consists of boxes, and each port is on one of them; list "
                                   "[[switch.box]] with their ports instead",
                                   network.name));
    }
    return;
  }
  if (spec.has("ports")) {
    return diagnostics_.add(spec.at("ports"), "ports: list them in the [[switch.box]] on which they are");
  }
  if (!spec.boxes.empty()) {
    network.boxes.clear();
    network.ports.clear();
    network.box_of_port.clear();
    network.trunks.clear();
  }
  for (const BoxSpec& box : spec.boxes) {
    const bool is_known = std::find(network.boxes.begin(), network.boxes.end(), box.name) != network.boxes.end();
    if (box.name.empty()) diagnostics_.add(box.place, "[[switch.box]] needs a name");
    if (is_known)
      diagnostics_.add(box.at("name"), fmt::format("name: two boxes of {} are '{}'", network.name, box.name));
    network.boxes.push_back(box.name);
    for (const auto& end : box.ports) {
      const auto port = resolve(end);
      if (!port) continue;
      network.ports.push_back(*port);
      network.box_of_port.push_back(static_cast<int>(network.boxes.size()) - 1);
    }
  }
  bool are_known = true;
  for (const TrunkSpec& trunk : spec.trunks) {
    if (trunk.ends.size() != 2) {
      diagnostics_.add(trunk.has("ends") ? trunk.at("ends") : trunk.place,
                       "ends: a [[switch.trunk]] has two ends, as in [\"leaf0\", \"spine0\"]");
      are_known = false;
      continue;
    }
    const auto a = box_named(network, trunk.ends[0]), b = box_named(network, trunk.ends[1]);
    are_known = are_known && a && b;
    if (!a || !b) continue;
    if (*a == *b) {
      diagnostics_.add(trunk.ends[1].place, fmt::format("ends: both are '{}'", trunk.ends[0].value));
      continue;
    }
    std::string name = trunk.ends[0].value + "-" + trunk.ends[1].value;
    const auto parallel = std::count_if(network.trunks.begin(), network.trunks.end(), [&](const models::Trunk& other) {
      return (other.a == *a && other.b == *b) || (other.a == *b && other.b == *a);
    });
    if (parallel > 0) name += fmt::format("-{}", parallel);
    network.trunks.push_back({.name = std::move(name),
                              .a = *a,
                              .b = *b,
                              .rate_bps = trunk.has("rate") ? trunk.rate_bps : spec_.topology.rate_bps,
                              .propagation_ps = trunk.has("latency") ? trunk.latency_ps : spec_.topology.latency_ps});
  }
  if (are_known && !models::TrunkRoutes(network).all_joined()) {
    diagnostics_.add(spec.place,
                     fmt::format("trunks do not join all boxes of {}; a [[switch]] is one network", network.name));
  }
}

}  // namespace meshbed::testbed

// Switched networks of several boxes: generated fabrics, and those that the file lists.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "models/lan/trunks.h"
#include "testbed/base/closest_name.h"
#include "testbed/scenario/builder.h"

namespace meshbed::testbed {
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

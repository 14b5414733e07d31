#include "sim/engine/bonds.h"

#include <algorithm>

#include "models/lan/bond.h"
#include "plugin/base/prng.h"

namespace meshbed::sim {
namespace {

using models::PortRef;

const models::Node& node_of(const models::Cluster& cluster, PortRef port) { return cluster.at(port.node); }

int bond_index(const models::Cluster& cluster, PortRef port) {
  return node_of(cluster, port).nics[static_cast<std::size_t>(port.nic)].bond;
}

/// The same in both directions.
std::uint64_t hash_of_ends(PortRef one, PortRef other) {
  const auto hash = [](PortRef port) {
    return mix64(static_cast<std::uint64_t>(port.node) << 32U | static_cast<std::uint64_t>(port.nic));
  };
  return mix64(hash(one) ^ hash(other));
}

std::vector<bool> links_of(const models::Bond& bond, int node, const Bonds::IsUp& is_up) {
  std::vector<bool> up;
  for (const int nic : bond.functions) up.push_back(is_up({node, nic}));
  return up;
}

/// The first that is enabled; `otherwise` where none is: the driver leaves its map alone then.
std::size_t first_enabled(const std::vector<bool>& enabled, std::size_t otherwise) {
  const auto found = std::find(enabled.begin(), enabled.end(), true);
  return found == enabled.end() ? otherwise : static_cast<std::size_t>(found - enabled.begin());
}

}  // namespace

Bonds::Bonds(const models::Cluster& cluster, const IsUp& is_up) : cluster_(cluster) {
  for (std::size_t node = 0; node < cluster.nodes.size(); ++node) {
    std::vector<State>& states = states_.emplace_back();
    for (const models::Bond& bond : cluster.nodes[node].bonds) {
      State& made = states.emplace_back();
      made.enabled = links_of(bond, static_cast<int>(node), is_up);
      made.active = first_enabled(made.enabled, 0);
    }
  }
}

PortRef Bonds::egress(PortRef device, PortRef far, std::uint64_t flow) const {
  const models::Bond* const bond = models::bond_of(cluster_, device);
  if (bond == nullptr || !bond->lag) return device;
  const State& now = state(device, bond_index(cluster_, device));
  const auto port = [&](std::size_t place) { return PortRef{device.node, bond->functions[place]}; };
  if (bond->mode == models::BondMode::kActiveBackup) return port(now.active);
  const std::uint64_t hash = bond->hashes_flows ? mix64(flow) : hash_of_ends(device, far);
  const std::size_t own = hash % bond->functions.size();
  std::vector<std::size_t> left;
  for (std::size_t place = 0; place < now.enabled.size(); ++place) {
    if (now.enabled[place]) left.push_back(place);
  }
  if (now.enabled[own] || left.empty()) return port(own);
  return port(left[hash / bond->functions.size() % left.size()]);
}

std::optional<Bonds::Change> Bonds::look(PortRef function, const IsUp& is_up) {
  const models::Bond* const bond = models::bond_of(cluster_, function);
  if (bond == nullptr) return std::nullopt;
  State& now = state(function, bond_index(cluster_, function));
  const State before = now;
  now.enabled = links_of(*bond, function.node, is_up);
  // Without a primary, the active function stays so when another one comes back (bonding.rst, primary_reselect).
  if (!now.enabled[now.active]) now.active = first_enabled(now.enabled, now.active);
  const bool active_backup = bond->mode == models::BondMode::kActiveBackup;
  if (active_backup ? now.active == before.active : now.enabled == before.enabled) return std::nullopt;
  const auto port = [&](std::size_t place) { return PortRef{function.node, bond->functions[place]}; };
  return active_backup ? Change{port(before.active), port(now.active)} : Change{function, function};
}

}  // namespace meshbed::sim

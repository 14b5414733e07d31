#include "cli/workload/reach.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "models/lan/bond.h"
#include "plugin/net/process/config.h"

namespace meshbed::cli {
namespace {

const net::VariableInfo& info_of(net::Variable variable) { return net::kVariables[static_cast<std::size_t>(variable)]; }

std::int64_t number_of(const models::Node& node, net::Variable variable) {
  const auto given = std::find_if(node.environment.begin(), node.environment.end(),
                                  [&](const auto& entry) { return entry.first == info_of(variable).name; });
  return net::evaluate(info_of(variable), given != node.environment.end() ? given->second.c_str() : nullptr).number;
}

/// In cables, as Config::max_relay_hops().
int hop_limit(const models::Node& node) {
  const std::int64_t hops = number_of(node, net::Variable::kMaxRelayHops);
  return static_cast<int>(hops > 0 ? hops : number_of(node, info_of(net::Variable::kMaxRelayHops).zero_means));
}

}  // namespace

models::Cluster as_plugin_takes_it(const models::Cluster& cluster) {
  models::Cluster taken = cluster;
  for (models::Node& node : taken.nodes) {
    const std::int64_t allowed = number_of(node, net::Variable::kAllowRouted);
    for (models::Nic& nic : node.nics) {
      if (allowed == 0 || (nic.policy_routed && allowed != 1)) nic.router = -1;
    }
  }
  return taken;
}

std::vector<std::string> ports_without_address(const models::Cluster& cluster) {
  std::set<models::PortRef> cabled;
  for (const models::Cable& cable : cluster.cables) cabled.insert({cable.a, cable.b});
  for (const models::Switch& box : cluster.switches) cabled.insert(box.ports.begin(), box.ports.end());
  std::vector<std::string> found;
  for (const models::PortRef& port : cabled) {
    const models::Node& node = cluster.nodes[static_cast<std::size_t>(port.node)];
    const models::Nic& nic = node.nics[static_cast<std::size_t>(port.nic)];
    // A bond's functions have none but the one that carries the bond's.
    const models::Bond* const bond = models::bond_of(cluster, port);
    if (!nic.addresses.empty() || (bond != nullptr && bond->functions.front() != port.nic)) continue;
    found.push_back(fmt::format("{}/{} is cabled but has no address; only link-local is left", node.name, nic.device));
  }
  return found;
}

std::optional<BeyondRelays> beyond_relays(const models::Cluster& cluster, const models::Topology& topology, int from,
                                          int to) {
  const int cables = models::hop_counts(topology, from)[static_cast<std::size_t>(to)];
  const int limit = hop_limit(cluster.nodes[static_cast<std::size_t>(from)]);
  if (cables <= 1 || cables <= limit) return std::nullopt;
  return BeyondRelays{.from = from, .to = to, .cables = cables, .limit = limit};
}

AllBeyondRelays all_beyond_relays(const models::Cluster& cluster, const models::Topology& topology, int nodes,
                                  std::size_t most) {
  std::vector<int> limits;
  for (const models::Node& node : cluster.nodes) limits.push_back(hop_limit(node));
  AllBeyondRelays found;
  for (int from = 0; from < nodes; ++from) {
    const std::vector<int> hops = models::hop_counts(topology, from);
    for (int to = from + 1; to < nodes; ++to) {
      const int cables = hops[static_cast<std::size_t>(to)];
      const int there = limits[static_cast<std::size_t>(from)], back = limits[static_cast<std::size_t>(to)];
      if (cables <= 1 || cables <= std::min(there, back)) continue;
      ++found.count;
      if (found.first.size() == most) continue;
      found.first.push_back(there <= back ? BeyondRelays{from, to, cables, there}
                                          : BeyondRelays{to, from, cables, back});
    }
  }
  return found;
}

}  // namespace meshbed::cli

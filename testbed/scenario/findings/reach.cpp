#include "testbed/scenario/findings/reach.h"

#include <algorithm>

#include "models/nccl_environment.h"
#include "plugin/net/process/config.h"

namespace meshbed::testbed {
namespace {

const net::VariableInfo& info_of(net::Variable variable) { return net::kVariables[static_cast<std::size_t>(variable)]; }

std::int64_t number_of(const models::Node& node, net::Variable variable) {
  const auto given = std::find_if(node.environment.begin(), node.environment.end(),
                                  [&](const auto& entry) { return entry.first == info_of(variable).name; });
  return net::evaluate(info_of(variable), given != node.environment.end() ? given->second.c_str() : nullptr).number;
}

}  // namespace

// As Config::max_relay_hops().
int relay_hop_limit(const models::Node& node) {
  const std::int64_t hops = number_of(node, net::Variable::kMaxRelayHops);
  return static_cast<int>(hops > 0 ? hops : number_of(node, info_of(net::Variable::kMaxRelayHops).zero_means));
}

models::Cluster as_plugin_takes_it(const models::Cluster& cluster) {
  models::Cluster taken = models::in_use(cluster);
  for (models::Node& node : taken.nodes) {
    const std::int64_t allowed = number_of(node, net::Variable::kAllowRouted);
    for (models::Nic& nic : node.nics) {
      if (allowed == 0 || (nic.policy_routed && allowed != 1)) nic.router = -1;
    }
  }
  return taken;
}

AllBeyondRelays all_beyond_relays(const models::Cluster& cluster, const models::Topology& topology, int nodes,
                                  std::size_t most) {
  std::vector<int> limits;
  for (const models::Node& node : cluster.nodes) limits.push_back(relay_hop_limit(node));
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

}  // namespace meshbed::testbed

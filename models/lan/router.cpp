#include "models/lan/router.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace meshbed::models {

const IpPrefix* source_of(const Nic& nic, const GatewayRoute& route) {
  const auto found = std::find_if(nic.addresses.begin(), nic.addresses.end(),
                                  [&](const IpPrefix& prefix) { return contains(prefix, route.gateway); });
  return found != nic.addresses.end() ? &*found : nullptr;
}

const GatewayRoute* route_by_router(const Nic& nic, const IpAddress& address) {
  const GatewayRoute* best = nullptr;
  for (const GatewayRoute& route : nic.routes) {
    if (!contains(route.destination, address) || source_of(nic, route) == nullptr) continue;
    if (best == nullptr || route.destination.length_bits > best->destination.length_bits) best = &route;
  }
  return best;
}

std::vector<std::vector<int>> switches_of_ports(const Cluster& cluster) {
  std::vector<std::vector<int>> places;
  for (const Node& node : cluster.nodes) places.emplace_back(node.nics.size(), -1);
  for (std::size_t index = 0; index < cluster.switches.size(); ++index) {
    for (const PortRef& port : cluster.switches[index].ports) {
      places[static_cast<std::size_t>(port.node)][static_cast<std::size_t>(port.nic)] = static_cast<int>(index);
    }
  }
  return places;
}

bool joins(const Router& router, int box) {
  return std::find(router.switches.begin(), router.switches.end(), box) != router.switches.end();
}

std::vector<std::vector<int>> joined_switches(const Cluster& cluster) {
  std::vector<int> first(cluster.switches.size());  // [switch] the first one of its list
  std::iota(first.begin(), first.end(), 0);
  for (const Router& router : cluster.routers) {
    int least = first[static_cast<std::size_t>(router.switches.front())];
    for (const int box : router.switches) least = std::min(least, first[static_cast<std::size_t>(box)]);
    for (const int box : router.switches) {
      const int old = first[static_cast<std::size_t>(box)];
      std::replace(first.begin(), first.end(), old, least);
    }
  }
  std::vector<std::vector<int>> lists;
  std::vector<int> place(first.size(), -1);
  for (std::size_t box = 0; box < first.size(); ++box) {
    int& own = place[static_cast<std::size_t>(first[box])];
    if (own < 0) {
      own = static_cast<int>(lists.size());
      lists.emplace_back();
    }
    lists[static_cast<std::size_t>(own)].push_back(static_cast<int>(box));
  }
  return lists;
}

}  // namespace meshbed::models

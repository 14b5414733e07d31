#include "cli/bounds.h"

#include <algorithm>

namespace meshbed::cli {
namespace {

const sim::Path* path_of(const Simulation& simulation, const sim::PairKey& key) {
  for (const sim::Path& path : simulation.paths) {
    if (path.source == key.source && path.destination == key.destination) return &path;
  }
  return nullptr;
}

std::uint32_t pmtu_of(const models::Cluster& cluster, const models::PortRef& port) {
  const models::Node& node = cluster.nodes[static_cast<std::size_t>(port.node)];
  return models::rdma_mtu_bytes(node.nics[static_cast<std::size_t>(port.nic)].mtu_bytes);
}

}  // namespace

BoundTable::BoundTable(const Scenario& scenario, const Simulation& simulation,
                       const std::map<sim::PairKey, sim::PairUsage>& pairs)
    : ranks_(ranks_of(scenario)), ranks_per_node_(scenario.workload.ranks_per_node) {
  for (const auto& [key, usage] : pairs) {
    const sim::Path* path = path_of(simulation, key);
    if (path == nullptr || path->links.empty()) continue;
    std::uint64_t rate_bps = ~0ULL;
    for (const int link : path->links) {
      rate_bps = std::min(rate_bps, simulation.links[static_cast<std::size_t>(link)].rate_bps);
    }
    const auto [entry, is_new] = hops_.try_emplace({key.source_rank, key.destination_rank});
    models::RingHop& hop = entry->second;
    hop.rate_bps += rate_bps;
    hop.latency_ps = is_new ? path->latency_ps : std::min(hop.latency_ps, path->latency_ps);
    const std::uint32_t pmtu_bytes = pmtu_of(scenario.cluster, key.source);
    hop.pmtu_bytes = is_new ? pmtu_bytes : std::max(hop.pmtu_bytes, pmtu_bytes);
  }
  for (const models::Node& node : scenario.cluster.nodes) {
    models::NodePort port{.ranks = scenario.workload.ranks_per_node};
    for (const models::Nic& nic : node.nics) port.rate_bps += nic.rate_bps;
    nodes_.push_back(port);
  }
}

std::vector<models::RingHop> BoundTable::hops(int shift, int idle_rank) const {
  std::vector<models::RingHop> found;
  for (int rank = 0; rank < ranks_; ++rank) {
    const int next = ((rank + shift) % ranks_ + ranks_) % ranks_;
    if (rank / ranks_per_node_ == next / ranks_per_node_) {
      found.push_back({.rate_bps = 0});
      continue;
    }
    const auto hop = hops_.find({rank, next});
    if (hop == hops_.end() && rank != idle_rank) return {};
    found.push_back(hop == hops_.end() ? models::RingHop{.rate_bps = 0} : hop->second);
  }
  return found;
}

Bounds BoundTable::of(models::Collective op, std::uint64_t bytes, int root, int shift) const {
  const bool is_sendrecv = op == models::Collective::kSendRecv;
  // A broadcast never goes on into its root.
  const int idle_rank = op == models::Collective::kBroadcast ? (root + ranks_ - 1) % ranks_ : -1;
  return {.ring = models::ring_bound(op, bytes, hops(is_sendrecv ? shift : 1, idle_rank), root),
          .any_algorithm_ps = models::any_algorithm_bound_ps(op, bytes, nodes_)};
}

}  // namespace meshbed::cli

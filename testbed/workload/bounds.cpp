#include "testbed/workload/bounds.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "models/lan/bond.h"
#include "models/nccl_environment.h"
#include "models/pcie.h"
#include "models/relay.h"
#include "testbed/scenario/placement.h"
#include "testbed/workload/outcome.h"
#include "testbed/workload/software.h"

namespace meshbed::testbed {
namespace {

using PathsByDevices = std::map<std::pair<models::PortRef, models::PortRef>, std::vector<const sim::Path*>>;

/// Between two devices one, or those over each function of a RoCE LAG; a standby's where a fault may have made it
/// carry.
PathsByDevices paths_by_devices(const Scenario& scenario, const Simulation& simulation) {
  const models::Cluster& cluster = scenario.cluster;
  PathsByDevices found;
  for (const sim::Path& path : simulation.paths) {
    const bool carries = !scenario.faults.empty() || !models::is_standby(cluster, path.source);
    if (!carries || path.links.empty()) continue;
    found[{models::device_of(cluster, path.source), models::device_of(cluster, path.destination)}].push_back(&path);
  }
  return found;
}

std::uint32_t pmtu_of(const models::Cluster& cluster, const models::PortRef& port) {
  const models::Node& node = cluster.at(port.node);
  return models::rdma_mtu_bytes(node.nic(port.nic).mtu_bytes);
}

/// What its cable or switch port lets through; 0: it hangs on neither, or an end of its cable is left out.
std::uint64_t cabled_rate_bps(const models::Cluster& cluster, const models::PortRef& port) {
  const auto nic_bps = [&cluster](const models::PortRef& at) { return cluster.nic_of(at).rate_bps; };
  const auto is_up = [&cluster](const models::PortRef& at) { return cluster.nic_of(at).link_up; };
  const auto least = [](std::uint64_t limit_bps, std::uint64_t rate_bps) {
    return limit_bps > 0 ? std::min(limit_bps, rate_bps) : rate_bps;
  };
  for (const models::Cable& cable : cluster.cables) {
    if (cable.a == port || cable.b == port) {
      if (!is_up(cable.a) || !is_up(cable.b)) return 0;
      return least(cable.rate_bps, std::min(nic_bps(cable.a), nic_bps(cable.b)));
    }
  }
  for (const models::Switch& box : cluster.switches) {
    if (std::find(box.ports.begin(), box.ports.end(), port) != box.ports.end()) {
      if (!is_up(port)) return 0;
      return least(box.rate_bps, nic_bps(port));
    }
  }
  return 0;
}

}  // namespace

BoundTable::BoundTable(const Scenario& scenario, const Simulation& simulation,
                       const std::map<sim::PairKey, sim::PairUsage>& pairs)
    : ranks_(ranks_of(scenario)), is_ring_(scenario.workload.algorithm == "ring") {
  std::map<std::pair<int, int>, std::vector<models::DirectPath>> paths;
  const PathsByDevices known = paths_by_devices(scenario, simulation);
  for (const auto& [key, usage] : pairs) {
    const auto its = known.find({key.source, key.destination});
    if (its == known.end()) continue;
    for (const sim::Path* path : its->second) {
      std::uint64_t rate_bps = ~0ULL;
      for (const int link : path->links) {
        rate_bps = std::min(rate_bps, simulation.links[static_cast<std::size_t>(link)].rate_bps);
      }
      const auto [entry, is_new] = hops_.try_emplace({key.source_rank, key.destination_rank});
      models::RingHop& hop = entry->second;
      paths[entry->first].push_back(
          {.from = path->source, .to = path->destination, .segment = -1, .rate_bps = rate_bps});
      hop.latency_ps = is_new ? path->latency_ps : std::min(hop.latency_ps, path->latency_ps);
      const std::uint32_t pmtu_bytes = pmtu_of(scenario.cluster, key.source);
      hop.pmtu_bytes = is_new ? pmtu_bytes : std::max(hop.pmtu_bytes, pmtu_bytes);
    }
  }
  // A port that is down may come up; one that the environment leaves out is never used.
  models::Cluster cabled = bounding_cluster(scenario);
  for (models::Node& node : cabled.nodes) {
    for (models::Nic& nic : node.nics) nic.link_up = true;
  }
  cabled = models::in_use(cabled);
  topology_ = models::analyse(cabled);
  for (auto& [ranks, hop] : hops_) hop.rate_bps = models::joint_rate_bps(topology_, paths[ranks]);
  std::vector<int> ranks_there(scenario.cluster.nodes.size());  // [node]
  for (int rank = 0; rank < ranks_; ++rank) {
    node_of_.push_back(node_of(scenario, rank));
    ++ranks_there[static_cast<std::size_t>(node_of_.back())];
  }
  const std::vector<std::vector<int>> cabled_nics = models::cabled_nics(scenario.cluster);
  for (std::size_t index = 0; index < ranks_there.size(); ++index) {
    if (ranks_there[index] == 0) continue;
    const models::Node& node = cabled.nodes[index];
    models::NodePort port{.ranks = ranks_there[index]};
    std::vector<int> used;
    for (const int nic : cabled_nics[index]) {
      const std::uint64_t rate_bps = cabled_rate_bps(cabled, {static_cast<int>(index), nic});
      port.rate_bps += rate_bps;
      if (rate_bps > 0) used.push_back(nic);
    }
    port.rate_bps = std::min(port.rate_bps, models::node_rate_bps(node, used));
    nodes_.push_back(port);
  }
  if (!scenario.faults.empty()) allow_for_chains(scenario, simulation);
}

void BoundTable::allow_for_chains(const Scenario& scenario, const Simulation& simulation) {
  Picoseconds least_latency_ps = 0;
  for (const sim::Path& path : simulation.paths) {
    least_latency_ps = least_latency_ps == 0 ? path.latency_ps : std::min(least_latency_ps, path.latency_ps);
  }
  std::uint32_t largest_pmtu_bytes = 0;
  for (const models::Node& node : scenario.cluster.nodes) {
    for (const models::Nic& nic : node.nics) {
      largest_pmtu_bytes = std::max(largest_pmtu_bytes, models::rdma_mtu_bytes(nic.mtu_bytes));
    }
  }
  for (auto& [ranks, hop] : hops_) {
    const std::uint64_t chain_bps = models::widest_chain_bps(topology_, node_at(ranks.first), node_at(ranks.second));
    // A channel that leaves the cable leaves it to the others.
    const auto other_channels = static_cast<std::uint64_t>(scenario.workload.channels - 1);
    hop.rate_bps = std::max(hop.rate_bps, chain_bps) + other_channels * chain_bps;
    hop.latency_ps = std::min(hop.latency_ps, least_latency_ps);
    hop.pmtu_bytes = std::max(hop.pmtu_bytes, largest_pmtu_bytes);
  }
}

std::vector<models::RingHop> BoundTable::hops(const CollectiveCase& wanted) const {
  const int shift = wanted.op == models::Collective::kSendRecv ? wanted.shift : 1;
  const int idle_rank = models::idle_rank_of(wanted.op, wanted.root, ranks_);
  std::vector<models::RingHop> found;
  for (int rank = 0; rank < ranks_; ++rank) {
    const int next = ((rank + shift) % ranks_ + ranks_) % ranks_;
    if (node_at(rank) == node_at(next) || !wanted.sends(rank)) {
      found.push_back({.rate_bps = 0});
      continue;
    }
    const auto hop = hops_.find({rank, next});
    if (hop == hops_.end() && rank != idle_rank) return {};
    found.push_back(hop == hops_.end() ? models::RingHop{.rate_bps = 0} : hop->second);
  }
  return found;
}

Picoseconds BoundTable::relay_bound_ps(const CollectiveCase& wanted, std::uint64_t bytes) const {
  const CollectivePattern pattern = pattern_of(wanted.op);
  if (pattern != CollectivePattern::kPairs && pattern != CollectivePattern::kMessage) return 0;
  const bool to_all = is_all_to_all(wanted.op);
  const bool gathers = is_of_root(info_of(wanted.op).receives), scatters = is_of_root(info_of(wanted.op).sends);
  if (models::pairs_without_direct_path(topology_, 0).count == 0) return 0;
  std::vector<models::Flow> flows;
  const auto flow = [&](int from, int to, std::uint64_t flow_bytes) {
    flows.push_back({.from = node_at(from), .to = node_at(to), .bytes = flow_bytes});
  };
  const std::uint64_t share_bytes = bytes / static_cast<std::uint64_t>(ranks_);
  for (int rank = 0; rank < ranks_; ++rank) {
    if (gathers && rank != wanted.root) flow(rank, wanted.root, share_bytes);
    if (scatters && rank != wanted.root) flow(wanted.root, rank, share_bytes);
    for (int step = 1; to_all && step < ranks_; ++step) flow(rank, (rank + step) % ranks_, share_bytes);
    if (pattern == CollectivePattern::kMessage && wanted.sends(rank)) {
      flow(rank, ((rank + wanted.shift) % ranks_ + ranks_) % ranks_, bytes);
    }
  }
  return models::relay_bound_ps(topology_, flows);
}

Bounds BoundTable::of(const CollectiveCase& wanted, std::uint64_t bytes) const {
  const Picoseconds relayed_ps = relay_bound_ps(wanted, bytes);
  // The closed form counts all ranks.
  const Picoseconds direct_ps = wanted.senders.empty() ? models::any_algorithm_bound_ps(wanted.op, bytes, nodes_) : 0;
  Bounds bounds{.ring = {}, .any_algorithm_ps = std::max(direct_ps, relayed_ps)};
  // Another algorithm may beat it; a sendrecv goes where it is sent, whatever was asked for.
  const bool by_hops = is_ring_ || wanted.op == models::Collective::kSendRecv;
  if (by_hops) bounds.ring = models::ring_bound(wanted.op, bytes, hops(wanted), wanted.root, size_of(wanted.type));
  return bounds;
}

}  // namespace meshbed::testbed

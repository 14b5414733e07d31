#include "testbed/workload/reconnect_objects.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "testbed/scenario/placement.h"

namespace meshbed::testbed {
namespace {

/// Verbs objects or descriptors of a rank at one time, also of one whose cables fail while it connects.
constexpr std::uint64_t kObjectsPerRank = 64;
/// The same of every further cable to a neighbour, over which connections are striped.
constexpr std::uint64_t kObjectsPerCable = 16;
/// And for each of its devices, where messages come into GPU memory: a flusher's queue pair, completion queue and word,
/// and those of one that takes its place.
constexpr std::uint64_t kFlusherObjectsPerDevice = 6;
/// Under faults each end of a connection keeps the QP links that it lost, with their rails: the last one, and four more
/// for 10 s (plugin/net/link/retired_links.h).
constexpr std::uint64_t kLostLinksPerEnd = 5;
/// A completion queue, up to two queue pairs and the ring's memory.
constexpr std::uint64_t kObjectsPerLink = 4;
/// A completion queue and a queue pair.
constexpr std::uint64_t kObjectsPerRail = 2;
/// Beside a QP link (plugin/net/wire/ring.h).
constexpr std::uint64_t kRailsMost = 6;
/// To the next rank and from the one before.
constexpr std::uint64_t kEndsPerRank = 2;

/// Beyond the first between two nodes, where most lie side by side.
std::uint64_t further_cables(const models::Cluster& cluster) {
  std::map<std::pair<int, int>, std::uint64_t> cables;
  std::uint64_t most = 1;
  for (const models::Cable& cable : cluster.cables) {
    most = std::max(most, ++cables[std::minmax(cable.a.node, cable.b.node)]);
  }
  return most - 1;
}

/// NCCL_IB_QPS_PER_CONNECTION, the most of all nodes; an invalid value is the plugin's to refuse.
std::uint64_t queue_pairs_per_cable(const models::Cluster& cluster) {
  std::uint64_t most = 1;
  for (const models::Node& node : cluster.nodes) {
    for (const auto& [name, value] : node.environment) {
      if (name != "NCCL_IB_QPS_PER_CONNECTION") continue;
      std::uint64_t pairs = 0;
      std::from_chars(value.data(), value.data() + value.size(), pairs);
      most = std::max(most, pairs);
    }
  }
  return most;
}

/// Verbs objects of QP links that the ends of a rank's connections have lost and not destroyed yet.
std::uint64_t lost_objects_per_rank(const Scenario& scenario) {
  if (scenario.faults.empty()) return 0;
  const std::uint64_t cables = 1 + further_cables(scenario.cluster);
  const std::uint64_t rails = std::min(cables * queue_pairs_per_cable(scenario.cluster) - 1, kRailsMost);
  return kEndsPerRank * kLostLinksPerEnd * (kObjectsPerLink + rails * kObjectsPerRail);
}

/// Of all nodes.
std::uint64_t devices_of(const Scenario& scenario) {
  std::uint64_t devices = 0;
  for (const auto& node : scenario.cluster.nodes) devices += node.nics.size();
  return devices;
}

}  // namespace

ReconnectObjects most_reconnect_objects(const Scenario& scenario, int rank_count) {
  const auto ranks = static_cast<std::uint64_t>(rank_count);
  // Each rank has some of its own, and those of one connection each way, on each of the cables that it is striped over.
  std::uint64_t most = (kObjectsPerRank + further_cables(scenario.cluster) * kObjectsPerCable) * ranks;
  if (scenario.workload.gpu_memory) {
    most += kFlusherObjectsPerDevice * devices_of(scenario) * static_cast<std::uint64_t>(ranks_per_node_most(scenario));
  }
  return {.verbs = most + lost_objects_per_rank(scenario) * ranks, .descriptors = most};
}

}  // namespace meshbed::testbed

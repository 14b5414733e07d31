#include "testbed/scenario/placement.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "models/pcie.h"
#include "models/routing_rules.h"

namespace meshbed::testbed {
namespace {

/// The node's environment says which devices there are, so that their indices are not those of its cabled NICs.
bool chooses_devices(const models::Node& node) {
  return std::any_of(node.environment.begin(), node.environment.end(), [](const auto& variable) {
    return variable.first == "NCCL_IB_HCA" || variable.first == "NCCL_IB_GID_INDEX" ||
           variable.first == "NCCL_MESH_USE_MANAGEMENT";
  });
}

/// Ports of 25 Gb/s or less beside one of 50 or more are the management network's (docs/topology.md).
bool is_management(const models::Node& node, int nic, const std::vector<int>& live) {
  constexpr std::uint64_t kSlowBps = 25'000'000'000, kFastBps = 50'000'000'000;
  const auto rate_of = [&](int each) { return node.nic(each).rate_bps; };
  return rate_of(nic) <= kSlowBps &&
         std::any_of(live.begin(), live.end(), [&](int each) { return rate_of(each) >= kFastBps; });
}

}  // namespace

std::string net_plugin_of(const Scenario& scenario, const BuiltFiles& files) {
  // Our own by the names that NCCL_NET_PLUGIN gives them, too.
  const std::string& named = scenario.workload.net_plugin;
  if (named == "local") return files.local_plugin;
  return named.empty() || named == "mesh" ? std::string(files.net_plugin) : named;
}

int ranks_of(const Scenario& scenario) {
  if (!scenario.rank_nodes.empty()) return static_cast<int>(scenario.rank_nodes.size());
  return static_cast<int>(scenario.cluster.nodes.size());
}

int node_of(const Scenario& scenario, int rank) {
  return scenario.rank_nodes.empty() ? rank : scenario.rank_nodes[static_cast<std::size_t>(rank)];
}

int ranks_on(const Scenario& scenario, int node) {
  if (scenario.rank_nodes.empty()) return 1;
  return static_cast<int>(std::count(scenario.rank_nodes.begin(), scenario.rank_nodes.end(), node));
}

int nodes_of(const Scenario& scenario) {
  if (scenario.rank_nodes.empty()) return static_cast<int>(scenario.cluster.nodes.size());
  return *std::max_element(scenario.rank_nodes.begin(), scenario.rank_nodes.end()) + 1;
}

int nodes_with_ranks(const Scenario& scenario) {
  if (scenario.rank_nodes.empty()) return static_cast<int>(scenario.cluster.nodes.size());
  return static_cast<int>(std::set<int>(scenario.rank_nodes.begin(), scenario.rank_nodes.end()).size());
}

bool is_one_a_node(const Scenario& scenario) {
  for (std::size_t rank = 0; rank < scenario.rank_nodes.size(); ++rank) {
    if (scenario.rank_nodes[rank] != static_cast<int>(rank)) return false;
  }
  return true;
}

std::vector<int> ranks_by_node(const Scenario& scenario) {
  std::vector<int> ranks(scenario.cluster.nodes.size(), scenario.rank_nodes.empty() ? 1 : 0);
  for (const int node : scenario.rank_nodes) ++ranks[static_cast<std::size_t>(node)];
  return ranks;
}

std::vector<int> local_ranks(const Scenario& scenario) {
  std::vector<int> seen(scenario.cluster.nodes.size()), local;
  for (int rank = 0; rank < ranks_of(scenario); ++rank) {
    local.push_back(seen[static_cast<std::size_t>(node_of(scenario, rank))]++);
  }
  return local;
}

int ranks_per_node_most(const Scenario& scenario) {
  const std::vector<int> ranks = ranks_by_node(scenario);
  return ranks.empty() ? 0 : *std::max_element(ranks.begin(), ranks.end());
}

std::string ranks_per_node_text(const Scenario& scenario) {
  const std::vector<int> ranks = ranks_by_node(scenario);
  const std::set<int> counts(ranks.begin(), ranks.begin() + nodes_of(scenario));
  if (counts.empty()) return "0";
  const std::string least = std::to_string(*counts.begin()), most = std::to_string(*counts.rbegin());
  return counts.size() == 1 ? most : least + (counts.size() == 2 ? " or " : " to ") + most;
}

std::vector<int> device_nics(const Scenario& scenario, const models::Topology& topology, int node) {
  const models::Node& modelled = scenario.cluster.at(node);
  const std::vector<int> live = models::live_nics(scenario.cluster, topology, node);
  if (chooses_devices(modelled)) return live;
  std::vector<int> opened;
  for (const int nic : live) {
    if (!is_management(modelled, nic, live)) opened.push_back(nic);
  }
  return opened;
}

std::vector<std::vector<int>> devices_by_rank(const Scenario& scenario, const models::Topology& topology) {
  const auto ranks = static_cast<std::size_t>(ranks_of(scenario));
  const std::size_t nodes = scenario.cluster.nodes.size();
  std::vector<int> ranks_there(nodes), seen(nodes);  // [node]
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    ++ranks_there[static_cast<std::size_t>(node_of(scenario, static_cast<int>(rank)))];
  }
  std::vector<std::vector<int>> devices(ranks), nics(nodes);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto index = static_cast<std::size_t>(node_of(scenario, static_cast<int>(rank)));
    const models::Node& node = scenario.cluster.nodes[index];
    const int gpu = seen[index]++;
    const bool says_pcie =
        gpu < static_cast<int>(node.gpus.size()) && node.gpus[static_cast<std::size_t>(gpu)].pcie >= 0;
    if ((ranks_there[index] == 1 && !says_pcie) || chooses_devices(node)) continue;
    if (gpu == 0) nics[index] = device_nics(scenario, topology, static_cast<int>(index));
    const std::vector<int> own = models::gpu_nics(node, nics[index], gpu, ranks_there[index]);
    if (own.size() == nics[index].size()) continue;
    for (const int nic : own) {
      const auto place = std::find(nics[index].begin(), nics[index].end(), nic) - nics[index].begin();
      devices[rank].push_back(static_cast<int>(place));
    }
  }
  return devices;
}

const char* fabric_name(const Scenario& scenario) { return scenario.fabric == "fluid" ? "fluid" : "chunk"; }

}  // namespace meshbed::testbed

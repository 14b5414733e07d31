#include "cli/topo/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "cli/scenario/placement.h"
#include "cli/topo/tuner.h"
#include "plugin/net/connect/routing.h"
#include "plugin/net/process/config.h"
#include "plugin/net/wire/neighbour_map.h"

namespace meshbed::cli {
namespace {

using models::Aim;

net::IpPrefix to_net(const models::IpPrefix& prefix) {
  return {
      .address = {.family = prefix.address.family == models::IpFamily::kIpv4 ? net::Family::kIpv4 : net::Family::kIpv6,
                  .bytes = prefix.address.bytes},
      .length_bits = prefix.length_bits};
}

/// The NIC as the plugin's discovery would tell it.
net::Nic to_net(const models::Nic& nic) {
  net::Nic result;
  result.device_name = nic.device;
  result.netdev = nic.netdev;
  result.link_up = true;
  result.rate_known = true;
  result.rate_mbps = static_cast<std::uint32_t>(nic.rate_bps / 1'000'000);
  for (const models::IpPrefix& address : nic.addresses) result.addresses.push_back(to_net(address));
  for (const models::GidEntry& gid : nic.gids) {
    const bool roce_v2 = gid.type == models::GidType::kRoceV2;
    result.gids.push_back(
        {.index = gid.index, .type = roce_v2 ? verbs::GidType::kRoceV2 : verbs::GidType::kRoceV1, .gid = gid.gid});
  }
  return result;
}

/// As the plugin on this node reads it.
net::Setting setting(const models::Node& node, net::Variable variable) {
  const net::VariableInfo& info = *std::find_if(net::kVariables.begin(), net::kVariables.end(),
                                                [&](const auto& each) { return each.id == variable; });
  const auto given = std::find_if(node.environment.begin(), node.environment.end(),
                                  [&](const auto& entry) { return entry.first == info.name; });
  return net::evaluate(info, given != node.environment.end() ? given->second.c_str() : nullptr);
}

std::uint64_t identity_of(int node) { return static_cast<std::uint64_t>(node) + 1; }

}  // namespace

/// One node as the plugin knows it: its NICs, and what it tells others of them.
struct MeshRules::State {
  struct Node {
    std::vector<int> live;  // positions in models::Node::nics of those that the plugin uses
    std::vector<net::Nic> nics;
    std::vector<net::PeerAddress> addresses;
    bool relays = true;
    int hop_limit = 8;
  };
  const models::Topology& topology;
  std::vector<Node> nodes;
  net::NeighbourMap map;
};

MeshRules::MeshRules(const models::Cluster& cluster, const models::Topology& topology, int job_nodes)
    : state_(new State{.topology = topology, .nodes = {}, .map = {}}) {
  for (std::size_t index = 0; index < cluster.nodes.size(); ++index) {
    State::Node node;
    const models::Node& modelled = cluster.nodes[index];
    const std::vector<int> live = models::live_nics(cluster, topology, static_cast<int>(index));
    std::vector<net::Nic> all;
    for (const int nic : live) all.push_back(to_net(modelled.nics[static_cast<std::size_t>(nic)]));
    const bool takes_all = net::takes_management(setting(modelled, net::Variable::kUseManagement).number != 0,
                                                 setting(modelled, net::Variable::kIbHca).text);
    for (std::size_t at = 0; at < live.size(); ++at) {
      if (!takes_all && net::role_of(all[at], all) == net::NicRole::kManagement) continue;
      const auto position = static_cast<std::uint8_t>(node.nics.size());
      node.live.push_back(live[at]);
      node.nics.push_back(all[at]);
      for (const net::IpPrefix& address : all[at].addresses) node.addresses.push_back({address, position});
    }
    node.relays = setting(modelled, net::Variable::kEnableRelay).number != 0;
    const std::int64_t hops = setting(modelled, net::Variable::kMaxRelayHops).number;
    node.hop_limit = static_cast<int>(hops > 0 ? hops : setting(modelled, net::Variable::kMaxHops).number);
    if (node.relays && (job_nodes == 0 || static_cast<int>(index) < job_nodes)) {
      state_->map.add(identity_of(static_cast<int>(index)), {.process = 1, .port = 1, .addresses = node.addresses});
    }
    state_->nodes.push_back(std::move(node));
  }
}

MeshRules::~MeshRules() = default;

MeshAim MeshRules::aim(int from, int to, int device) const {
  const State::Node& own = state_->nodes[static_cast<std::size_t>(from)];
  const State::Node& theirs = state_->nodes[static_cast<std::size_t>(to)];
  if (own.nics.empty() || theirs.nics.empty()) return {};
  const int dev = device % static_cast<int>(own.nics.size());
  const auto route = net::choose_route({.nics = &own.nics,
                                        .peer = theirs.addresses,
                                        .dev = dev,
                                        .peer_dev = device % static_cast<int>(theirs.nics.size())});
  if (route) {
    const int nic = own.live[static_cast<std::size_t>(route->nic)];
    const auto paths = models::direct_paths(state_->topology, from, to);
    const bool there =
        std::any_of(paths.begin(), paths.end(), [&](const models::DirectPath& path) { return path.from.nic == nic; });
    // Where an address lies and its cable does not, TCP over that cable is refused before any queue pair is made.
    return {there ? Aim::kReached : Aim::kRefused, nic, 1};
  }
  if (!own.relays) return {};
  const auto chain = state_->map.chain({.nics = &own.nics,
                                        .node = identity_of(from),
                                        .target = identity_of(to),
                                        .target_addresses = theirs.addresses,
                                        .hop_limit = own.hop_limit,
                                        .dev = dev});
  if (!chain) return {};
  for (std::size_t nic = 0; nic < own.nics.size(); ++nic) {
    for (const net::IpPrefix& address : own.nics[nic].addresses) {
      if (net::shared_bits(address, chain->front().address)) {
        return {Aim::kReached, own.live[nic], static_cast<int>(chain->size()) + 1};
      }
    }
  }
  return {};
}

bool MeshRules::relays() const {
  return std::all_of(state_->nodes.begin(), state_->nodes.end(), [](const State::Node& node) { return node.relays; });
}

namespace {

std::string cell(const models::Cluster& cluster, int node, Aim aim, int nic, int cables) {
  if (aim == Aim::kRefused) return "refused";
  const std::string& device = cluster.nodes[static_cast<std::size_t>(node)].nics[static_cast<std::size_t>(nic)].device;
  if (aim == Aim::kLost) return "LOST " + device;
  return cables > 1 ? fmt::format("{}, {} cables", device, cables) : device;
}

}  // namespace

std::string rules_report(const Scenario& scenario) {
  const models::Cluster& cluster = scenario.cluster;
  const models::Topology topology = models::analyse(cluster);
  const int nodes = ranks_of(scenario) / scenario.workload.ranks_per_node;
  const MeshRules mesh(cluster, topology, nodes);
  std::string text = fmt::format(
      "{}: by whose rules a channel gets from node to node, and by which NIC\n"
      "LOST: aims with a NIC at another one to which it has no cable, and times out; refused: an error at once, which\n"
      "says why. Devices are NICs with a cable and an address.\n\n",
      scenario.name);
  text += fmt::format("{:<16} {:>3}  {:<18} {:<18} {:<22} {:<22} {}\n", "node -> node", "dev", "nccl-mesh-plugin",
                      "NCCL 2.30.7", "NCCL, subnet-aware", "NCCL, s.-a., fused", "Mesh");
  for (int from = 0; from < nodes; ++from) {
    for (int to = 0; to < nodes; ++to) {
      if (from == to) continue;
      const int devices = static_cast<int>(models::live_nics(cluster, topology, from).size());
      for (int device = 0; device < devices; ++device) {
        std::array<std::string, models::kRoutingRules.size()> others;
        for (std::size_t index = 0; index < models::kRoutingRules.size(); ++index) {
          const models::Aimed aimed = models::aim_of(models::kRoutingRules[index], cluster, topology, from, to, device);
          others[index] = cell(cluster, from, aimed.aim, aimed.nic, 1);
        }
        const MeshAim ours = mesh.aim(from, to, device);
        text += fmt::format("{:<16} {:>3}  {:<18} {:<18} {:<22} {:<22} {}\n",
                            cluster.nodes[static_cast<std::size_t>(from)].name + " -> " +
                                cluster.nodes[static_cast<std::size_t>(to)].name,
                            device, others[0], others[1], others[2], others[3],
                            cell(cluster, from, ours.aim, ours.nic, ours.cables));
      }
    }
  }
  return text + "\n" +
         (mesh.relays() ? tuner_report(cluster, topology, nodes)
                        : "tuner: relays are off: algorithms are NCCL's choice\n");
}

}  // namespace meshbed::cli

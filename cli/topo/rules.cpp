#include "cli/topo/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <span>

#include "cli/common/json_text.h"
#include "cli/scenario/findings/findings.h"
#include "cli/scenario/placement.h"
#include "cli/topo/tuner.h"
#include "models/gid_table.h"
#include "models/lan/bond.h"
#include "models/lan/vlan.h"
#include "plugin/base/counted.h"
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
  result.netdev = models::address_netdev(nic);
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

/// What stands in the node's main table, where the plugin reads it.
std::vector<net::GatewayRoute> gateway_routes(const models::Node& node) {
  std::vector<net::GatewayRoute> routes;
  for (const models::Nic& nic : node.nics) {
    for (const models::GatewayRoute& route : nic.routes) {
      if (nic.policy_routed) continue;
      const models::IpPrefix gateway{.address = route.gateway, .length_bits = 0};
      routes.push_back(
          {.netdev = nic.netdev, .destination = to_net(route.destination), .gateway = to_net(gateway).address});
    }
  }
  return routes;
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
    std::int64_t allow_routed = net::kUnset;
    std::vector<net::GatewayRoute> table;  // the main one's routes by way of a router

    net::RouteRequest request(std::span<const net::PeerAddress> peer) const {
      net::RouteRequest made{.nics = &nics, .peer = peer};
      if (allow_routed != 0) made.routed = net::RoutedPairs{.all = allow_routed == 1, .table = table};
      return made;
    }
    /// A node that is called over a router from there has a way back.
    bool answers(const net::IpPrefix& from) const {
      const std::vector<net::PeerAddress> caller{{.prefix = from, .nic = 0}};
      return net::choose_route(request(caller)).has_value();
    }
  };
  const models::Cluster& cluster;
  const models::Topology& topology;
  std::vector<Node> nodes;
  net::NeighbourMap map;
};

MeshRules::MeshRules(const models::Cluster& cluster, const models::Topology& topology, int job_nodes)
    : state_(new State{.cluster = cluster, .topology = topology, .nodes = {}, .map = {}}) {
  for (std::size_t index = 0; index < cluster.nodes.size(); ++index) {
    State::Node node;
    const models::Node& modelled = cluster.nodes[index];
    const std::vector<int> live = models::live_nics(cluster, topology, static_cast<int>(index));
    std::vector<net::Nic> all;
    for (const int nic : live) all.push_back(to_net(modelled.nics[static_cast<std::size_t>(nic)]));
    const bool takes_all = net::takes_management(setting(modelled, net::Variable::kUseManagement).number != 0,
                                                 setting(modelled, net::Variable::kIbHca).text);
    const auto pinned = static_cast<int>(setting(modelled, net::Variable::kIbGidIndex).number);
    for (std::size_t at = 0; at < live.size(); ++at) {
      if (pinned >= 0 && !net::find_gid(all[at], {}, {.forced_index = pinned})) continue;
      if (!takes_all && net::role_of(all[at], all) == net::NicRole::kManagement) continue;
      const auto position = static_cast<std::uint8_t>(node.nics.size());
      node.live.push_back(live[at]);
      node.nics.push_back(all[at]);
      for (const net::IpPrefix& address : all[at].addresses) node.addresses.push_back({address, position});
    }
    node.allow_routed = setting(modelled, net::Variable::kAllowRouted).number;
    node.table = gateway_routes(modelled);
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

MeshAim MeshRules::aim(int from, int to, int device, int peer_device) const {
  const State::Node& own = state_->nodes[static_cast<std::size_t>(from)];
  const State::Node& theirs = state_->nodes[static_cast<std::size_t>(to)];
  if (own.nics.empty() || theirs.nics.empty()) return {};
  const int dev = device % static_cast<int>(own.nics.size());
  const int theirs_wanted = peer_device < 0 ? device : peer_device;
  net::RouteRequest request = own.request(theirs.addresses);
  request.dev = dev;
  request.peer_dev = theirs_wanted % static_cast<int>(theirs.nics.size());
  const auto route = net::choose_route(request);
  if (route) {
    const int nic = own.live[static_cast<std::size_t>(route->nic)];
    const auto paths = models::direct_paths(state_->topology, from, to);
    const bool there = std::any_of(paths.begin(), paths.end(), [&](const models::DirectPath& path) {
      return models::device_of(state_->cluster, path.from).nic == nic;
    });
    // Where an address lies and its cable does not, TCP over that cable is refused before any queue pair is made.
    if (!route->routed) return {there ? Aim::kReached : Aim::kRefused, nic, 1};
    // A route that leads nowhere, or not back, leaves relays.
    if (there && theirs.answers(route->local)) return {Aim::kReached, nic, 1, true};
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

bool MeshRules::uses(int node, int nic) const {
  const std::vector<int>& live = state_->nodes[static_cast<std::size_t>(node)].live;
  return std::find(live.begin(), live.end(), nic) != live.end();
}

namespace {

constexpr std::size_t kRules = models::kRoutingRules.size() + 1;  // and Mesh's, the last one

struct Outcomes {
  std::uint64_t channels = 0, reached = 0, lost = 0, refused = 0;
  void add(Aim aim) {
    ++channels;
    ++(aim == Aim::kReached ? reached : aim == Aim::kLost ? lost : refused);
  }
};

/// [node] the device lists of its ranks, each once; where they have all devices, that list.
std::vector<std::set<std::vector<int>>> device_lists(const Scenario& scenario, const models::Topology& topology) {
  std::vector<std::set<std::vector<int>>> lists(scenario.cluster.nodes.size());
  const std::vector<std::vector<int>> devices = devices_by_rank(scenario, topology);
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    const int node = node_of(scenario, static_cast<int>(rank));
    std::vector<int> own = devices[rank];
    if (own.empty()) {
      own.resize(device_nics(scenario, topology, node).size());
      std::iota(own.begin(), own.end(), 0);
    }
    lists[static_cast<std::size_t>(node)].insert(std::move(own));
  }
  return lists;
}

/// Which device here talks to which there, of some rank on either node: empty where all ranks of both nodes have the
/// same, so that equal devices meet.
std::set<std::pair<int, int>> device_pairs(const std::set<std::vector<int>>& here,
                                           const std::set<std::vector<int>>& there) {
  std::set<std::pair<int, int>> pairs;
  if (here.size() <= 1 && there.size() <= 1) return pairs;
  for (const std::vector<int>& own : here) {
    for (const std::vector<int>& theirs : there) {
      for (std::size_t channel = 0; channel < std::max(own.size(), theirs.size()); ++channel) {
        if (!own.empty() && !theirs.empty()) pairs.insert({own[channel % own.size()], theirs[channel % theirs.size()]});
      }
    }
  }
  return pairs;
}

/// Every rule on one scenario.
class RuleComparison {
 public:
  explicit RuleComparison(const Scenario& scenario)
      : cluster(scenario.cluster),
        topology(models::analyse(cluster)),
        nodes(nodes_of(scenario)),
        mesh(cluster, topology, nodes),
        stock_(cluster, models::settings_of(models::RoutingRule::kNccl)) {
    for (const models::RoutingRule rule : models::kRoutingRules) others_.emplace_back(rule, cluster, topology);
    const std::vector<std::set<std::vector<int>>> lists = device_lists(scenario, topology);
    for (int from = 0; from < nodes; ++from) {
      const std::vector<int> joined = models::neighbours(topology, from);
      for (int to = 0; to < nodes; ++to) {
        if (from == to) continue;
        const int channels = std::max(static_cast<int>(stock_.nics(from).size()),
                                      static_cast<int>(models::live_nics(cluster, topology, from).size()));
        const bool is_near = std::binary_search(joined.begin(), joined.end(), to);
        const std::set<std::pair<int, int>> crossing =
            device_pairs(lists[static_cast<std::size_t>(from)], lists[static_cast<std::size_t>(to)]);
        crosses_rails = crosses_rails || !crossing.empty();
        for (const auto& [device, peer] : crossing) add_line(from, to, device, peer, is_near);
        for (int channel = 0; crossing.empty() && channel < channels; ++channel) {
          add_line(from, to, channel, channel, is_near);
        }
      }
    }
  }

  const models::Cluster& cluster;
  const models::Topology topology;
  const int nodes;
  const MeshRules mesh;
  bool crosses_rails = false;                  // ranks of one node have devices of their own
  std::array<Outcomes, kRules> near{}, far{};  // between nodes that a cable, switch or router joins, and others
  std::string table;

  /// What NCCL would open and Mesh does not, as (NIC, why).
  std::vector<std::pair<std::string, std::string>> left_out() const {
    std::vector<std::pair<std::string, std::string>> found;
    for (int node = 0; node < nodes; ++node) {
      const models::Node& modelled = cluster.nodes[static_cast<std::size_t>(node)];
      const std::vector<int> live = models::live_nics(cluster, topology, node);
      for (const int index : stock_.nics(node)) {
        if (mesh.uses(node, index)) continue;
        const models::Nic& nic = modelled.nics[static_cast<std::size_t>(index)];
        const bool is_live = std::find(live.begin(), live.end(), index) != live.end();
        std::string why = is_live ? "slow beside the node's other ports, or without the pinned GID index"
                                  : "no port that it reaches has an address in its subnet";
        if (nic.addresses.empty()) {
          why = "no address; NCCL takes it by its link-local GID, " +
                models::to_string(models::link_local_address({node, index}));
        }
        found.emplace_back(modelled.name + "/" + nic.device, why);
      }
    }
    return found;
  }

  static const char* name_of(std::size_t rule) {
    return rule + 1 < kRules ? models::name_of(models::kRoutingRules[rule]) : "mesh";
  }
  static const char* description_of(std::size_t rule) {
    return rule + 1 < kRules ? models::describe(models::kRoutingRules[rule]) : "Mesh";
  }

 private:
  std::string cell(int node, Aim aim, int nic, int cables) const {
    if (aim == Aim::kRefused) return "refused";
    const std::string& device =
        cluster.nodes[static_cast<std::size_t>(node)].nics[static_cast<std::size_t>(nic)].device;
    if (aim == Aim::kLost) return "LOST " + device;
    return cables > 1 ? fmt::format("{}, {} cables", device, cables) : device;
  }

  void add_line(int from, int to, int channel, int peer, bool is_near) {
    auto& outcomes = is_near ? near : far;
    std::array<std::string, models::kRoutingRules.size()> cells;
    for (std::size_t rule = 0; rule < cells.size(); ++rule) {
      const models::Aimed aimed = others_[rule].aim(from, to, channel, peer);
      outcomes[rule].add(aimed.aim);
      cells[rule] = cell(from, aimed.aim, aimed.nic, 1);
    }
    const MeshAim ours = mesh.aim(from, to, channel, peer);
    outcomes.back().add(ours.aim);
    table += fmt::format(
        "{:<16} {:>3}  {:<18} {:<18} {:<22} {:<22} {}\n",
        cluster.nodes[static_cast<std::size_t>(from)].name + " -> " + cluster.nodes[static_cast<std::size_t>(to)].name,
        peer == channel ? std::to_string(channel) : fmt::format("{}-{}", channel, peer), cells[0], cells[1], cells[2],
        cells[3], cell(from, ours.aim, ours.nic, ours.cables) + (ours.routed ? ", routed" : ""));
  }

  models::NcclRouting stock_;
  std::vector<models::RuleAims> others_;
};

std::string outcome_table(const RuleComparison& all) {
  std::string text =
      fmt::format("{:<38} {:>18} {:>6} {:>8} {:>15}\n", "", "neighbours reached", "lost", "refused", "others reached");
  for (std::size_t rule = 0; rule < kRules; ++rule) {
    const Outcomes &near = all.near[rule], &far = all.far[rule];
    text += fmt::format("{:<38} {:>18} {:>6} {:>8} {:>15}\n", RuleComparison::description_of(rule),
                        fmt::format("{} of {}", near.reached, near.channels), near.lost, near.refused,
                        fmt::format("{} of {}", far.reached, far.channels));
  }
  return text;
}

std::string settings_report(const RuleComparison& all) {
  if (all.near.back().channels == 0) return "stock NCCL: no two nodes share a cable or switch: no setting helps\n";
  const auto working = models::settings_that_work(all.cluster, all.topology, all.nodes, all.crosses_rails);
  if (!working) {
    return "stock NCCL: none of NCCL_IB_SUBNET_AWARE_ROUTING, NCCL_IB_MERGE_NICS, NCCL_IB_SUBNET_PREFIX_LEN and "
           "NCCL_IB_ADDR_FAMILY\nmakes it reach every neighbour on this cabling\n";
  }
  std::string text = "stock NCCL reaches every neighbour on this cabling with " +
                     (working->text.empty() ? "its defaults" : working->text) + "\n";
  if (const std::uint64_t far = all.far.back().channels; far > 0) {
    text += fmt::format(
        "but it does not relay: {} between nodes that share no cable {} lost, so that only a ring of "
        "neighbours works\n(NCCL_ALGO=Ring, ranks in the order of the cables)\n",
        counted(far, "channel"), far == 1 ? "is" : "are");
  }
  return text;
}

}  // namespace

std::string rules_report(const Scenario& scenario) {
  const RuleComparison all(scenario);
  std::string text = fmt::format(
      "{}: by whose rules a channel gets from node to node, and by which NIC\n"
      "LOST: aims with a NIC at another one to which it has no cable, and times out; refused: an error at once, which\n"
      "says why. Devices are NICs with a link.\n\n",
      scenario.name);
  if (all.table.empty()) {
    text += "There is nothing to list: no pair of nodes that run ranks has a NIC with a link.\n";
  } else {
    text += fmt::format("{:<16} {:>3}  {:<18} {:<18} {:<22} {:<22} {}\n", "node -> node", "dev", "nccl-mesh-plugin",
                        "NCCL 2.30.7", "NCCL, subnet-aware", "NCCL, s.-a., fused", "Mesh");
    text += all.table + "\n" + outcome_table(all);
  }
  if (const auto left_out = all.left_out(); !left_out.empty()) {
    text += "\nNCCL would open these NICs, and Mesh leaves them out:\n";
    for (const auto& [nic, why] : left_out) text += "  " + nic + ": " + why + "\n";
  }
  text += "\n" + (all.mesh.relays() ? tuner_report(all.cluster, all.topology, all.nodes)
                                    : "tuner: relays are off: algorithms are NCCL's choice\n");
  return text + "\n" + settings_report(all);
}

std::string rules_json(const Scenario& scenario) {
  const RuleComparison all(scenario);
  nlohmann::ordered_json json{{"scenario", scenario.name}, {"rules", nlohmann::ordered_json::array()}};
  for (std::size_t rule = 0; rule < kRules; ++rule) {
    const Outcomes &near = all.near[rule], &far = all.far[rule];
    json["rules"].push_back({{"rule", RuleComparison::name_of(rule)},
                             {"channels", near.channels},
                             {"reached", near.reached},
                             {"lost", near.lost},
                             {"refused", near.refused},
                             {"far_channels", far.channels},
                             {"far_reached", far.reached},
                             {"far_lost", far.lost},
                             {"far_refused", far.refused}});
  }
  json["left_out"] = nlohmann::ordered_json::array();
  for (const auto& [nic, why] : all.left_out()) json["left_out"].push_back({{"nic", nic}, {"why", why}});
  const auto working = models::settings_that_work(all.cluster, all.topology, all.nodes, all.crosses_rails);
  json["settings"] = working ? nlohmann::ordered_json(working->text) : nlohmann::ordered_json(nullptr);
  json["findings"] = findings_json(findings_of(scenario));
  return json_text(json, kIndent) + "\n";
}

}  // namespace meshbed::cli

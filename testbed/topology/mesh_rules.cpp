// MeshRules: the plugin's own functions on a modelled cluster.

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/lan/bond.h"
#include "models/lan/vlan.h"
#include "models/nccl_environment.h"
#include "plugin/base/hca_list.h"
#include "plugin/net/connect/routing.h"
#include "plugin/net/process/config.h"
#include "plugin/net/wire/neighbour_map.h"
#include "testbed/topology/rules.h"

namespace meshbed::testbed {
namespace {

using models::Aim;

/// The NIC as the plugin's discovery reports it.
net::Nic to_net(const models::Nic& nic) {
  net::Nic result;
  result.device_name = nic.device;
  result.netdev = models::address_netdev(nic);
  result.port = nic.port;
  result.link_up = true;
  result.rate_known = true;
  result.rate_mbps = static_cast<std::uint32_t>(nic.rate_bps / 1'000'000);
  result.addresses = nic.addresses;
  for (const models::GidEntry& gid : nic.gids) {
    const bool roce_v2 = gid.type == models::GidType::kRoceV2;
    result.gids.push_back(
        {.index = gid.index, .type = roce_v2 ? verbs::GidType::kRoceV2 : verbs::GidType::kRoceV1, .gid = gid.gid});
  }
  return result;
}

/// The variable's value as the plugin on this node reads it.
net::Setting setting(const models::Node& node, net::Variable variable) {
  const net::VariableInfo& info = *std::find_if(net::kVariables.begin(), net::kVariables.end(),
                                                [&](const auto& each) { return each.id == variable; });
  const auto given = std::find_if(node.environment.begin(), node.environment.end(),
                                  [&](const auto& entry) { return entry.first == info.name; });
  return net::evaluate(info, given != node.environment.end() ? given->second.c_str() : nullptr);
}

/// The gateway routes of the node's main table, as the plugin reads it.
std::vector<net::GatewayRoute> gateway_routes(const models::Node& node) {
  std::vector<net::GatewayRoute> routes;
  for (const models::Nic& nic : node.nics) {
    for (const models::GatewayRoute& route : nic.routes) {
      if (nic.policy_routed) continue;
      routes.push_back({.netdev = nic.netdev, .destination = route.destination, .gateway = route.gateway});
    }
  }
  return routes;
}

std::uint64_t identity_of(int node) { return static_cast<std::uint64_t>(node) + 1; }

}  // namespace

/// The nodes as the plugin knows them: their NICs, and the addresses that they announce.
struct MeshRules::State {
  State(const models::Cluster& of, const models::Topology& its) : cluster(of), topology(its) {}
  struct Node {
    std::vector<int> live;  // positions in models::Node::nics of those that the plugin uses
    std::vector<net::Nic> nics;
    std::vector<net::PeerAddress> addresses;
    bool relays = true;
    int hop_limit = 8;
    std::int64_t allow_routed = net::kUnset;
    std::vector<net::GatewayRoute> table;  // the main table's routes over a router

    net::RouteRequest request(std::span<const net::PeerAddress> peer) const {
      net::RouteRequest made{.nics = &nics, .peer = peer};
      if (allow_routed != 0) made.routed = net::RoutedPairs{.all = allow_routed == 1, .table = table};
      return made;
    }
    /// Whether a node that is called from there over a router has a route back.
    bool answers(const IpPrefix& from) const {
      const std::vector<net::PeerAddress> caller{{.prefix = from, .nic = 0}};
      return net::choose_route(request(caller)).has_value();
    }
  };
  const models::Cluster& cluster;
  const models::Topology& topology;
  std::vector<Node> nodes;
  std::vector<bool> relays;                  // [node] it runs ranks, and relays for others
  std::vector<std::vector<int>> neighbours;  // [node] the nodes at the other ends of its cables

  /// [node] cables from there to `to`, through nodes that relay; kApart: none lead there.
  const std::vector<int>& cables_to(int to) {
    std::vector<int>& cables = cables_to_[to];
    if (!cables.empty()) return cables;
    cables.assign(nodes.size(), kApart);
    cables[static_cast<std::size_t>(to)] = 0;
    std::vector<int> reached{to};
    for (std::size_t next = 0; next < reached.size(); ++next) {
      const auto node = static_cast<std::size_t>(reached[next]);
      if (reached[next] != to && !relays[node]) continue;
      for (const int other : neighbours[node]) {
        int& there = cables[static_cast<std::size_t>(other)];
        if (there != kApart) continue;
        there = cables[node] + 1;
        reached.push_back(other);
      }
    }
    return cables;
  }
  static constexpr int kApart = 1 << 20;

  /// The relays on a shortest chain between the two nodes: the plugin always chooses one of them.
  const net::NeighbourMap& map_between(int from, int to) {
    if (map_of_ == std::pair(from, to)) return map_;
    map_of_ = {from, to};
    map_ = {};
    const std::vector<int>& to_target = cables_to(to);
    const std::vector<int>& to_source = cables_to(from);
    const int cables = to_target[static_cast<std::size_t>(from)];
    for (std::size_t node = 0; cables < kApart && node < nodes.size(); ++node) {
      const bool is_between = relays[node] && to_target[node] + to_source[node] == cables;
      if (is_between)
        map_.add(identity_of(static_cast<int>(node)), {.process = 1, .port = 1, .addresses = nodes[node].addresses});
    }
    return map_;
  }

 private:
  std::map<int, std::vector<int>> cables_to_;
  std::pair<int, int> map_of_{-1, -1};
  net::NeighbourMap map_;
};

namespace {

/// [node] the nodes with an address that one of the node's own shares a subnet with.
std::vector<std::vector<int>> neighbours_by_address(const std::vector<std::vector<net::PeerAddress>>& addresses) {
  // Two prefixes that contain each other's address agree in the bits of the shorter one: group candidates by the
  // shortest length in use, per family.
  std::map<Family, std::uint8_t> shortest;
  for (const auto& node : addresses) {
    for (const net::PeerAddress& one : node) {
      const auto [entry, is_new] = shortest.emplace(one.prefix.address.family, one.prefix.length_bits);
      if (!is_new) entry->second = std::min(entry->second, one.prefix.length_bits);
    }
  }
  std::map<std::pair<Family, decltype(IpAddress::bytes)>, std::vector<std::pair<int, net::PeerAddress>>> near;
  const auto key_of = [&](const net::PeerAddress& one) {
    auto bytes = one.prefix.address.bytes;
    const unsigned bits = shortest.at(one.prefix.address.family);
    for (unsigned bit = bits; bit < 8 * bytes.size(); ++bit) {
      bytes[bit / 8] = static_cast<std::uint8_t>(bytes[bit / 8] & ~(0x80U >> bit % 8));
    }
    return std::pair(one.prefix.address.family, bytes);
  };
  for (std::size_t node = 0; node < addresses.size(); ++node) {
    for (const net::PeerAddress& one : addresses[node]) near[key_of(one)].emplace_back(static_cast<int>(node), one);
  }
  std::vector<std::vector<int>> neighbours(addresses.size());
  for (const auto& [key, group] : near) {
    for (const auto& [node, own] : group) {
      std::vector<int>& mine = neighbours[static_cast<std::size_t>(node)];
      for (const auto& [other, theirs] : group) {
        if (other != node && net::shared_address({own}, {theirs}) != nullptr) mine.push_back(other);
      }
    }
  }
  for (std::vector<int>& mine : neighbours) {
    std::sort(mine.begin(), mine.end());
    mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
  }
  return neighbours;
}

}  // namespace

MeshRules::MeshRules(const models::Cluster& cluster, const models::Topology& topology, int job_nodes)
    : state_(std::make_unique<State>(cluster, topology)) {
  std::vector<std::vector<net::PeerAddress>> addresses;
  for (std::size_t index = 0; index < cluster.nodes.size(); ++index) {
    State::Node node;
    const models::Node& modelled = cluster.nodes[index];
    const std::vector<int> live = models::live_nics(cluster, topology, static_cast<int>(index));
    std::vector<net::Nic> all;
    for (const int nic : live) all.push_back(to_net(modelled.nics[static_cast<std::size_t>(nic)]));
    const std::string hca_list = setting(modelled, net::Variable::kIbHca).text;
    const bool starts = models::has_socket_interface(modelled);
    const bool takes_all =
        net::takes_management(setting(modelled, net::Variable::kUseManagement).number != 0, hca_list);
    const auto pinned = static_cast<int>(setting(modelled, net::Variable::kIbGidIndex).number);
    for (std::size_t at = 0; at < live.size(); ++at) {
      if (!starts || !hca_allowed(hca_list, all[at].device_name, all[at].port)) continue;
      if (pinned >= 0 && !net::find_gid(all[at], {}, {.forced_index = pinned})) continue;
      if (!takes_all && net::role_of(all[at], all) == net::NicRole::kManagement) continue;
      const auto position = static_cast<std::uint8_t>(node.nics.size());
      node.live.push_back(live[at]);
      node.nics.push_back(all[at]);
      for (const IpPrefix& address : all[at].addresses) node.addresses.push_back({address, position});
    }
    node.allow_routed = setting(modelled, net::Variable::kAllowRouted).number;
    node.table = gateway_routes(modelled);
    node.relays = setting(modelled, net::Variable::kEnableRelay).number != 0;
    const std::int64_t hops = setting(modelled, net::Variable::kMaxRelayHops).number;
    node.hop_limit = static_cast<int>(hops > 0 ? hops : setting(modelled, net::Variable::kMaxHops).number);
    state_->relays.push_back(node.relays && (job_nodes == 0 || static_cast<int>(index) < job_nodes));
    addresses.push_back(node.addresses);
    state_->nodes.push_back(std::move(node));
  }
  state_->neighbours = neighbours_by_address(addresses);
}

MeshRules::~MeshRules() = default;

MeshAim MeshRules::aim(int from, int to, int device, int peer_device, bool names_nic) const {
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
    // If an address is assigned but its cable is not connected, TCP over it fails before any queue pair is created.
    if (!route->routed) return {there ? Aim::kReached : Aim::kRefused, nic, 1};
    // Without a working route in both directions, only relays remain.
    if (there && theirs.answers(route->local)) return {Aim::kReached, nic, 1, true};
  }
  if (!own.relays) return {};
  const int cables = state_->cables_to(to)[static_cast<std::size_t>(from)];
  if (cables > own.hop_limit) return {};
  if (!names_nic) return {Aim::kReached, -1, cables};
  const auto chain = state_->map_between(from, to).chain({.nics = &own.nics,
                                                          .node = identity_of(from),
                                                          .target = identity_of(to),
                                                          .target_addresses = theirs.addresses,
                                                          .hop_limit = own.hop_limit,
                                                          .dev = dev});
  if (!chain) return {};
  for (std::size_t nic = 0; nic < own.nics.size(); ++nic) {
    for (const IpPrefix& address : own.nics[nic].addresses) {
      if (shared_bits(address, chain->front().address)) {
        return {Aim::kReached, own.live[nic], static_cast<int>(chain->size()) + 1};
      }
    }
  }
  return {};
}

bool MeshRules::relays() const {
  return std::all_of(state_->nodes.begin(), state_->nodes.end(), [](const State::Node& node) { return node.relays; });
}

std::size_t MeshRules::devices(int node) const { return state_->nodes[static_cast<std::size_t>(node)].live.size(); }

bool MeshRules::uses(int node, int nic) const {
  const std::vector<int>& live = state_->nodes[static_cast<std::size_t>(node)].live;
  return std::find(live.begin(), live.end(), nic) != live.end();
}

}  // namespace meshbed::testbed

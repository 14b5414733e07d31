#include "models/routing_rules.h"

#include <algorithm>

namespace meshbed::models {
namespace {

constexpr std::uint64_t kFastLaneBps = 50'000'000'000;
constexpr std::uint8_t kNcclPrefixBits = 24;  // NCCL_IB_SUBNET_PREFIX_LEN; IPv6: 64
constexpr std::uint8_t kNcclPrefixBits6 = 64;

const Nic& nic_at(const Cluster& cluster, int node, int nic) {
  return cluster.nodes[static_cast<std::size_t>(node)].nics[static_cast<std::size_t>(nic)];
}

bool has_cable_to(const Topology& topology, PortRef from, PortRef to) {
  const std::vector<DirectPath> paths = direct_paths(topology, from.node, to.node);
  return std::any_of(paths.begin(), paths.end(),
                     [&](const DirectPath& path) { return path.from == from && path.to == to; });
}

IpPrefix as_nccl_sees(const IpPrefix& prefix) {
  return {prefix.address, prefix.address.family == IpFamily::kIpv4 ? kNcclPrefixBits : kNcclPrefixBits6};
}

bool share_by_nccl(const Nic& one, const Nic& other) {
  for (const IpPrefix& left : one.addresses) {
    for (const IpPrefix& right : other.addresses) {
      if (same_subnet(as_nccl_sees(left), as_nccl_sees(right))) return true;
    }
  }
  return false;
}

Aimed aim_of_ancestor(const Cluster& cluster, const Topology& topology, int from, int to) {
  std::vector<int> own = live_nics(cluster, topology, from);
  std::stable_partition(own.begin(), own.end(),
                        [&](int nic) { return nic_at(cluster, from, nic).rate_bps >= kFastLaneBps; });
  for (const int nic : own) {
    for (const int theirs : live_nics(cluster, topology, to)) {
      for (const IpPrefix& left : nic_at(cluster, from, nic).addresses) {
        for (const IpPrefix& right : nic_at(cluster, to, theirs).addresses) {
          if (!same_subnet(left, right)) continue;
          return {has_cable_to(topology, {from, nic}, {to, theirs}) ? Aim::kReached : Aim::kLost, nic};
        }
      }
    }
  }
  return {Aim::kRefused, -1};
}

/// `theirs`: the NICs whose GIDs the listener names.
Aimed aim_of_nccl(const Cluster& cluster, const Topology& topology, int from, int own_default, int to,
                  const std::vector<int>& theirs) {
  const auto matches = [&](int nic) {
    return std::any_of(theirs.begin(), theirs.end(), [&](int their) {
      return share_by_nccl(nic_at(cluster, from, nic), nic_at(cluster, to, their));
    });
  };
  int chosen = own_default;
  if (!matches(own_default)) {
    for (const int nic : live_nics(cluster, topology, from)) {
      if (!matches(nic)) continue;
      chosen = nic;
      break;
    }
  }
  const bool reaches = std::any_of(theirs.begin(), theirs.end(), [&](int their) {
    return has_cable_to(topology, {from, chosen}, {to, their});
  });
  return {reaches ? Aim::kReached : Aim::kLost, chosen};
}

}  // namespace

const char* describe(RoutingRule rule) {
  switch (rule) {
    case RoutingRule::kAncestor:
      return "nccl-mesh-plugin";
    case RoutingRule::kNccl:
      return "NCCL 2.30.7";
    case RoutingRule::kNcclSubnetAware:
      return "NCCL 2.30.7, subnet-aware";
    case RoutingRule::kNcclSubnetAwareFused:
      return "NCCL 2.30.7, subnet-aware, NICs fused";
  }
  return "";
}

std::vector<int> live_nics(const Cluster& cluster, const Topology& topology, int node) {
  std::vector<int> live;
  for (const int segment : topology.segments_of_node[static_cast<std::size_t>(node)]) {
    for (const PortRef& port : topology.segments[static_cast<std::size_t>(segment)].ports) {
      if (port.node == node) live.push_back(port.nic);
    }
  }
  // A crossed cable has a link and an address too.
  for (const CrossedCable& crossed : topology.crossed) {
    const Cable& cable = cluster.cables[static_cast<std::size_t>(crossed.cable)];
    for (const PortRef& port : {cable.a, cable.b}) {
      if (port.node == node && !nic_at(cluster, node, port.nic).addresses.empty()) live.push_back(port.nic);
    }
  }
  std::sort(live.begin(), live.end());
  live.erase(std::unique(live.begin(), live.end()), live.end());
  return live;
}

Aimed aim_of(RoutingRule rule, const Cluster& cluster, const Topology& topology, int from, int to, int device) {
  const std::vector<int> own = live_nics(cluster, topology, from), theirs = live_nics(cluster, topology, to);
  if (own.empty() || theirs.empty()) return {Aim::kRefused, -1};
  if (rule == RoutingRule::kAncestor) return aim_of_ancestor(cluster, topology, from, to);
  const int own_default = own[static_cast<std::size_t>(device) % own.size()];
  const int their_default = theirs[static_cast<std::size_t>(device) % theirs.size()];
  switch (rule) {
    case RoutingRule::kNccl:
      return {has_cable_to(topology, {from, own_default}, {to, their_default}) ? Aim::kReached : Aim::kLost,
              own_default};
    case RoutingRule::kNcclSubnetAware:
      return aim_of_nccl(cluster, topology, from, own_default, to, {their_default});
    default:
      // The handle has room for two GIDs: those of the fused device's first two ports.
      return aim_of_nccl(cluster, topology, from, own_default, to,
                         {theirs.begin(), theirs.begin() + std::min<std::ptrdiff_t>(2, std::ssize(theirs))});
  }
}

}  // namespace meshbed::models

#include "models/routing_rules.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "models/lan/bond.h"
#include "models/lan/qsfp.h"
#include "models/nccl_environment.h"

namespace meshbed::models {
namespace {

constexpr std::uint64_t kFastLaneBps = 50'000'000'000;
/// Functions of one fused device (NCCL_NET_MAX_DEVS_PER_NIC), GIDs in a listener's handle (connect.cc 57).
constexpr std::size_t kFusedMost = 8, kListenGids = 2;

const Nic& nic_at(const Cluster& cluster, int node, int nic) { return cluster.nic_of(node, nic); }

/// Between devices: of a RoCE LAG any function's.
bool has_cable_to(const Cluster& cluster, const Topology& topology, PortRef from, PortRef to) {
  const std::vector<DirectPath> paths = direct_paths(topology, from.node, to.node);
  return std::any_of(paths.begin(), paths.end(), [&](const DirectPath& path) {
    return device_of(cluster, path.from) == from && device_of(cluster, path.to) == to;
  });
}

/// `live`: [node] live_nics().
Aimed aim_of_ancestor(const Cluster& cluster, const Topology& topology, const std::vector<std::vector<int>>& live,
                      int from, int to) {
  std::vector<int> own = live[static_cast<std::size_t>(from)];
  std::stable_partition(own.begin(), own.end(),
                        [&](int nic) { return nic_at(cluster, from, nic).rate_bps >= kFastLaneBps; });
  for (const int nic : own) {
    for (const int theirs : live[static_cast<std::size_t>(to)]) {
      for (const IpPrefix& left : nic_at(cluster, from, nic).addresses) {
        for (const IpPrefix& right : nic_at(cluster, to, theirs).addresses) {
          if (!same_subnet(left, right)) continue;
          return {has_cable_to(cluster, topology, {from, nic}, {to, theirs}) ? Aim::kReached : Aim::kLost, nic};
        }
      }
    }
  }
  return {Aim::kRefused, -1};
}

/// An IPv4 address in an IPv6 one, by itself or as a multicast address (getGidAddrFamily, connect.cc 163-169).
Family family_of(const RawGid& gid) {
  const auto zero = [&](std::size_t begin, std::size_t end) {
    return std::all_of(gid.begin() + static_cast<std::ptrdiff_t>(begin), gid.begin() + static_cast<std::ptrdiff_t>(end),
                       [](std::uint8_t byte) { return byte == 0; });
  };
  const bool begins = zero(0, 4) || (gid[0] == 0xff && gid[1] == 0x0e && gid[2] == 0 && gid[3] == 0);
  return begins && zero(4, 10) && gid[10] == 0xff && gid[11] == 0xff ? Family::kIpv4 : Family::kIpv6;
}

bool is_link_local(const RawGid& gid) {
  constexpr RawGid kPrefix{0xfe, 0x80};
  return std::memcmp(gid.data(), kPrefix.data(), 8) == 0;
}

IpAddress address_of(const RawGid& gid) {
  IpAddress address{.family = family_of(gid), .bytes = gid};
  if (address.family == Family::kIpv4) {
    address.bytes = {};
    std::copy(gid.begin() + 12, gid.end(), address.bytes.begin());
  }
  return address;
}

/// Does the port, whose entry that is, answer for `gid`, or know on which of its wires to ask for it?
bool is_on_link(const std::vector<IpPrefix>& addresses, const RawGid& gid) {
  if (is_link_local(gid)) return true;
  const IpAddress address = address_of(gid);
  return std::any_of(addresses.begin(), addresses.end(),
                     [&](const IpPrefix& prefix) { return contains(prefix, address); });
}

/// Whether the port's interface has a route to `gid`'s address through a router, independently of the choice of NICs.
bool is_routed(const std::vector<GatewayRoute>& routes, const RawGid& gid) {
  return !is_link_local(gid) && std::any_of(routes.begin(), routes.end(), [&](const GatewayRoute& route) {
    return contains(route.destination, address_of(gid));
  });
}

/// Two functions of one card: all but the last digit of their PCI addresses is alike.
bool is_one_card(const Nic& one, const Nic& other) {
  const std::string &left = one.pci_path, &right = other.pci_path;
  return !left.empty() && left.size() == right.size() &&
         left.compare(0, left.size() - 1, right, 0, right.size() - 1) == 0;
}

/// NCCL reads its numbers with strtoll(3) and checks no range (src/misc/param.cc), but for the prefix length.
int number_on(const Node& node, std::string_view name, int otherwise) {
  return static_cast<int>(number_of(node, name, INT32_MIN, INT32_MAX).value_or(otherwise));
}

NcclSettings as_set_on(const Node& node, NcclSettings settings) {
  settings.subnet_aware = number_on(node, "NCCL_IB_SUBNET_AWARE_ROUTING", settings.subnet_aware ? 1 : 0) != 0;
  settings.merge_nics = number_on(node, "NCCL_IB_MERGE_NICS", settings.merge_nics ? 1 : 0) != 0;
  settings.gid_index = number_on(node, "NCCL_IB_GID_INDEX", settings.gid_index);
  settings.prefix_bits = number_on(node, "NCCL_IB_SUBNET_PREFIX_LEN", settings.prefix_bits);
  const int version = number_on(node, "NCCL_IB_ROCE_VERSION_NUM", settings.gid_type == GidType::kRoceV1 ? 1 : 2);
  settings.gid_type = version == 1 ? GidType::kRoceV1 : GidType::kRoceV2;
  if (const auto family = variable_of(node, "NCCL_IB_ADDR_FAMILY")) {
    settings.family = *family == "AF_INET6" ? Family::kIpv6 : Family::kIpv4;
  }
  return settings;
}

/// The media of the switches that the NIC's router joins, as media_of() numbers them.
std::vector<int> media_beyond(const Cluster& cluster, const Nic& nic) {
  std::vector<int> media;
  if (nic.router < 0) return media;
  for (const int box : cluster.routers[static_cast<std::size_t>(nic.router)].switches) {
    media.push_back(static_cast<int>(cluster.cables.size()) + box);
  }
  return media;
}

/// [node][nic] the wire's first cable, or cables + switch, that a port with a link hangs on; -1: no link.
std::vector<std::vector<int>> media_of(const Cluster& cluster) {
  std::vector<std::vector<int>> media;
  for (const Node& node : cluster.nodes) media.emplace_back(node.nics.size(), -1);
  const auto at = [&](PortRef port) -> int& {
    return media[static_cast<std::size_t>(port.node)][static_cast<std::size_t>(port.nic)];
  };
  const auto is_up = [&](PortRef port) { return nic_at(cluster, port.node, port.nic).link_up; };
  // A device of several functions hangs on the first one's; a standby function without one has no GID to be used by.
  const auto hang = [&](PortRef port, int medium) {
    int& own = at(device_of(cluster, port));
    if (own < 0 && !is_standby(cluster, port)) own = medium;
  };
  const std::vector<int> wire = wires(cluster);
  for (std::size_t index = 0; index < cluster.cables.size(); ++index) {
    const Cable& cable = cluster.cables[index];
    if (!is_up(cable.a) || !is_up(cable.b)) continue;
    for (const PortRef end : {cable.a, cable.b}) hang(end, wire[index]);
  }
  int next = static_cast<int>(cluster.cables.size());
  for (const Switch& box : cluster.switches) {
    for (const PortRef& port : box.ports) {
      if (is_up(port)) hang(port, next);
    }
    ++next;
  }
  return media;
}

}  // namespace

bool nccl_is_valid(const RawGid& gid) {
  return !is_link_local(gid) && std::any_of(gid.begin(), gid.end(), [](std::uint8_t byte) { return byte != 0; });
}

bool nccl_same_subnet(const RawGid& one, const RawGid& other, int prefix_bits) {
  if (family_of(one) != family_of(other)) return false;
  if (family_of(one) == Family::kIpv6) return std::equal(one.begin(), one.begin() + 8, other.begin());
  std::uint32_t left = 0, right = 0;
  for (std::size_t byte = 12; byte < one.size(); ++byte) {
    left = left << 8U | one[byte];
    right = right << 8U | other[byte];
  }
  return (left ^ right) >> static_cast<unsigned>(32 - std::clamp(prefix_bits, 1, 32)) == 0;
}

std::optional<GidEntry> nccl_gid(const std::vector<GidEntry>& table, const NcclSettings& settings) {
  const auto entry_at = [&](std::uint32_t index) -> std::optional<GidEntry> {
    for (const GidEntry& entry : table) {
      if (entry.index == index) return entry;
    }
    return std::nullopt;
  };
  if (settings.gid_index >= 0) return entry_at(static_cast<std::uint32_t>(settings.gid_index));
  std::optional<GidEntry> chosen = entry_at(0);
  for (const GidEntry& candidate : table) {  // empty ones are of no family that is wanted, and not valid
    if (candidate.index == 0) continue;
    const RawGid current = chosen ? chosen->gid : RawGid{};
    if (family_of(candidate.gid) != settings.family) continue;
    const bool is_better_family = family_of(current) != settings.family;
    const bool is_other_type = !chosen || chosen->type != candidate.type || !nccl_is_valid(current);
    const bool is_better_type = nccl_is_valid(candidate.gid) && is_other_type && candidate.type == settings.gid_type;
    if (is_better_family || is_better_type) chosen = candidate;
  }
  return chosen;
}

NcclDevices nccl_devices(const Cluster& cluster, int node, const NcclSettings& settings) {
  const auto media = media_of(cluster);
  const std::vector<Nic>& nics = cluster.at(node).nics;
  NcclDevices found;
  for (std::size_t nic = 0; nic < nics.size(); ++nic) {
    const bool is_open =
        media[static_cast<std::size_t>(node)][nic] >= 0 && hca_lets_in(cluster, {node, static_cast<int>(nic)});
    if (is_open) found.devices.push_back({static_cast<int>(nic)});
  }
  const std::size_t alone = found.devices.size();
  std::vector<bool> placed(alone, false);
  for (std::size_t first = 0; first < alone; ++first) {
    if (placed[first]) continue;
    std::vector<int> fused{found.devices[first].front()};
    for (std::size_t other = first + 1; settings.merge_nics && other < alone && fused.size() < kFusedMost; ++other) {
      const int nic = found.devices[other].front();
      if (placed[other] ||
          !is_one_card(nics[static_cast<std::size_t>(fused.front())], nics[static_cast<std::size_t>(nic)]))
        continue;
      fused.push_back(nic);
      placed[other] = true;
    }
    const bool is_fused = fused.size() > 1;
    found.channels.push_back(static_cast<int>(is_fused ? found.devices.size() : first));
    if (is_fused) found.devices.push_back(std::move(fused));
  }
  return found;
}

int nccl_find_device(const std::vector<NcclGids>& devices, const NcclGids& remote, int wanted, int prefix_bits) {
  if (std::none_of(remote.begin(), remote.end(), nccl_is_valid)) return wanted;
  const auto reaches = [&](const NcclGids& functions) {
    return !functions.empty() && std::all_of(functions.begin(), functions.end(), [&](const RawGid& own) {
      return nccl_is_valid(own) && std::any_of(remote.begin(), remote.end(), [&](const RawGid& theirs) {
               return nccl_is_valid(theirs) && nccl_same_subnet(own, theirs, prefix_bits);
             });
    });
  };
  if (reaches(devices[static_cast<std::size_t>(wanted)])) return wanted;
  const auto other = std::find_if(devices.begin(), devices.end(), reaches);
  return other == devices.end() ? wanted : static_cast<int>(other - devices.begin());
}

int nccl_connector_device(const std::vector<NcclGids>& devices, const NcclGids& listener, int wanted,
                          const NcclSettings& settings) {
  if (!settings.subnet_aware) return wanted;
  const auto named = static_cast<std::ptrdiff_t>(std::min(listener.size(), kListenGids));
  return nccl_find_device(devices, {listener.begin(), listener.begin() + named}, wanted, settings.prefix_bits);
}

int nccl_acceptor_device(const std::vector<NcclGids>& devices, const NcclGids& sender, int wanted,
                         const NcclSettings& settings) {
  return settings.subnet_aware ? nccl_find_device(devices, sender, wanted, settings.prefix_bits) : wanted;
}

NcclRouting::NcclRouting(const Cluster& cluster, const NcclSettings& settings) {
  const auto media = media_of(cluster);
  for (std::size_t index = 0; index < cluster.nodes.size(); ++index) {
    const models::Node& modelled = cluster.nodes[index];
    Node node;
    node.settings = as_set_on(modelled, settings);
    if (has_socket_interface(modelled)) {
      node.devices = nccl_devices(cluster, static_cast<int>(index), node.settings);
    }
    for (std::size_t nic = 0; nic < modelled.nics.size(); ++nic) {
      node.ports.push_back({.medium = media[index][nic],
                            .gid = nccl_gid(modelled.nics[nic].gids, node.settings),
                            .addresses = modelled.nics[nic].addresses,
                            .beyond = media_beyond(cluster, modelled.nics[nic]),
                            .routes = modelled.nics[nic].routes});
    }
    for (const std::vector<int>& device : node.devices.devices) {
      if (device.size() == 1) node.nics.push_back(device.front());
    }
    for (const std::vector<int>& device : node.devices.devices) {
      NcclGids gids;
      for (const int nic : device) {
        const Port& port = node.ports[static_cast<std::size_t>(nic)];
        gids.push_back(port.gid ? port.gid->gid : RawGid{});
      }
      node.gids.push_back(std::move(gids));
    }
    nodes_.push_back(std::move(node));
  }
}

Aim NcclRouting::queue_pair(const Port& from, const Port& to) {
  // ibv_modify_qp refuses an empty entry, two families, and an IPv6 address that no prefix leads to.
  if (!from.gid || !to.gid) return Aim::kRefused;
  const RawGid &own = from.gid->gid, &theirs = to.gid->gid;
  if (family_of(own) != family_of(theirs)) return Aim::kRefused;
  const auto has = [](const std::vector<int>& media, int medium) {
    return std::find(media.begin(), media.end(), medium) != media.end();
  };
  const bool crosses = from.medium != to.medium && has(from.beyond, to.medium) && has(to.beyond, from.medium);
  const bool routed = crosses && from.gid->type == GidType::kRoceV2 && is_routed(from.routes, theirs) &&
                      is_routed(to.routes, own);  // by GID: NCCL asks for no subnet here
  const bool there = routed || is_on_link(from.addresses, theirs), back = routed || is_on_link(to.addresses, own);
  if (family_of(own) == Family::kIpv6 && !(there && back)) return Aim::kRefused;
  const bool joined = routed || (from.medium >= 0 && from.medium == to.medium && from.gid->vlan == to.gid->vlan);
  return joined && there && back && from.gid->type == to.gid->type ? Aim::kReached : Aim::kLost;
}

Aimed NcclRouting::aim(int from, int to, int channel, int peer_channel) const {
  const Node &own = nodes_[static_cast<std::size_t>(from)], &theirs = nodes_[static_cast<std::size_t>(to)];
  if (own.devices.channels.empty() || theirs.devices.channels.empty()) return {Aim::kRefused, -1};
  const auto is_invalid = [](const NcclSettings& set) {
    return set.subnet_aware &&
           (set.prefix_bits < 1 || set.prefix_bits > 32);  // ncclInvalidArgument, connect.cc 527-531
  };
  if (is_invalid(own.settings) || is_invalid(theirs.settings)) return {Aim::kRefused, -1};
  const auto default_of = [](const Node& node, int of) {
    return node.devices.channels[static_cast<std::size_t>(of) % node.devices.channels.size()];
  };
  const int listener = default_of(theirs, peer_channel < 0 ? channel : peer_channel);
  const int sender = nccl_connector_device(own.gids, theirs.gids[static_cast<std::size_t>(listener)],
                                           default_of(own, channel), own.settings);
  const int receiver =
      nccl_acceptor_device(theirs.gids, own.gids[static_cast<std::size_t>(sender)], listener, theirs.settings);
  const std::vector<int>& out = own.devices.devices[static_cast<std::size_t>(sender)];
  const std::vector<int>& in = theirs.devices.devices[static_cast<std::size_t>(receiver)];
  Aim worst = Aim::kReached;
  for (std::size_t pair = 0; pair < std::max(out.size(), in.size()); ++pair) {
    const Aim one = queue_pair(own.ports[static_cast<std::size_t>(out[pair % out.size()])],
                               theirs.ports[static_cast<std::size_t>(in[pair % in.size()])]);
    if (one == Aim::kRefused || worst == Aim::kReached) worst = one;
  }
  return {worst, out.front()};
}

const char* describe(RoutingRule rule) {
  switch (rule) {
    case RoutingRule::kAncestor:
      return "nccl-mesh-plugin";
    case RoutingRule::kNccl:
      return "NCCL 2.30.7, NICs not fused";
    case RoutingRule::kNcclSubnetAware:
      return "NCCL 2.30.7, subnet-aware, not fused";
    case RoutingRule::kNcclSubnetAwareFused:
      return "NCCL 2.30.7, subnet-aware, NICs fused";
  }
  return "";
}

const char* name_of(RoutingRule rule) {
  switch (rule) {
    case RoutingRule::kAncestor:
      return "ancestor";
    case RoutingRule::kNccl:
      return "nccl";
    case RoutingRule::kNcclSubnetAware:
      return "nccl-subnet-aware";
    case RoutingRule::kNcclSubnetAwareFused:
      return "nccl-subnet-aware-fused";
  }
  return "";
}

NcclSettings settings_of(RoutingRule rule) {
  return {.subnet_aware = rule == RoutingRule::kNcclSubnetAware || rule == RoutingRule::kNcclSubnetAwareFused,
          .merge_nics = rule == RoutingRule::kNcclSubnetAwareFused};
}

RuleAims::RuleAims(RoutingRule rule, const Cluster& cluster, const Topology& topology)
    : rule_(rule), cluster_(cluster), topology_(topology) {
  if (rule != RoutingRule::kAncestor) {
    nccl_.emplace(cluster, settings_of(rule));
    return;
  }
  for (int node = 0; node < static_cast<int>(cluster.nodes.size()); ++node) {
    live_.push_back(live_nics(cluster, topology, node));
  }
}

Aimed RuleAims::aim(int from, int to, int device, int peer_device) const {
  if (rule_ != RoutingRule::kAncestor) return nccl_->aim(from, to, device, peer_device);
  // It reads none of NCCL's variables, but NCCL loads it after its bootstrap.
  const auto starts = [this](int node) { return has_socket_interface(cluster_.at(node)); };
  if (!starts(from) || !starts(to)) return {Aim::kRefused, -1};
  return aim_of_ancestor(cluster_, topology_, live_, from, to);
}

std::vector<int> live_nics(const Cluster& cluster, const Topology& topology, int node) {
  std::vector<int> live;
  for (const int segment : topology.segments_of_node[static_cast<std::size_t>(node)]) {
    for (const PortRef& port : topology.segments[static_cast<std::size_t>(segment)].ports) {
      if (port.node == node) live.push_back(device_of(cluster, port).nic);
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

}  // namespace meshbed::models

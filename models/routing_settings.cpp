// Settings under which stock NCCL works on a cluster, found by trying them.

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "models/nccl_environment.h"
#include "models/routing_rules.h"

namespace meshbed::models {
namespace {

/// Every node of the job sets the variable.
bool is_pinned(const Cluster& cluster, int nodes, std::string_view name) {
  return std::all_of(cluster.nodes.begin(), cluster.nodes.begin() + nodes,
                     [&](const Node& node) { return variable_of(node, name).has_value(); });
}

/// Some node of the job sets the variable.
bool is_set(const Cluster& cluster, int nodes, std::string_view name) {
  return std::any_of(cluster.nodes.begin(), cluster.nodes.begin() + nodes,
                     [&](const Node& node) { return variable_of(node, name).has_value(); });
}

/// What has to be set beyond NCCL's defaults and what every node sets already.
std::string text_of(const Cluster& cluster, int nodes, const NcclSettings& settings) {
  const NcclSettings stock;
  std::string text;
  const auto add = [&](bool differs, const std::string& name, const std::string& value) {
    if (differs && !is_pinned(cluster, nodes, name)) text += (text.empty() ? "" : " ") + name + "=" + value;
  };
  add(settings.subnet_aware != stock.subnet_aware, "NCCL_IB_SUBNET_AWARE_ROUTING", "1");
  add(settings.merge_nics != stock.merge_nics, "NCCL_IB_MERGE_NICS", "0");
  add(settings.family != stock.family, "NCCL_IB_ADDR_FAMILY", "AF_INET6");
  add(settings.prefix_bits != stock.prefix_bits, "NCCL_IB_SUBNET_PREFIX_LEN", std::to_string(settings.prefix_bits));
  return text;
}

/// With those settings, on all channels between nodes that a cable, switch or router joins. None are: false.
bool works(const Cluster& cluster, const Topology& topology, int nodes, const NcclSettings& settings,
           bool crosses_rails) {
  const NcclRouting routing(cluster, settings);
  bool any = false;
  for (int from = 0; from < nodes; ++from) {
    // Without a NIC left the only channel is refused.
    const int channels = std::max(1, static_cast<int>(routing.nics(from).size()));
    for (const int to : neighbours(topology, from)) {
      for (int channel = 0; to < nodes && channel < channels; ++channel) {
        const int first = crosses_rails ? 0 : channel, last = crosses_rails ? channels - 1 : channel;
        for (int peer = first; peer <= last; ++peer) {
          if (routing.aim(from, to, channel, peer).aim != Aim::kReached) return false;
        }
        any = true;
      }
    }
  }
  return any;
}

std::optional<NcclSettings> first_that_works(const Cluster& cluster, const Topology& topology, int nodes,
                                             bool crosses_rails) {
  std::set<int> lengths;  // of the cables' own subnets, where 24 bits would take several for one, or one for several
  for (const Node& node : cluster.nodes) {
    for (const Nic& nic : node.nics) {
      for (const IpPrefix& prefix : nic.addresses) {
        if (prefix.address.family == Family::kIpv4 && prefix.length_bits > 0) lengths.insert(prefix.length_bits);
      }
    }
  }
  std::vector<int> prefixes{NcclSettings{}.prefix_bits};
  for (const int length : lengths) {
    if (length != prefixes.front()) prefixes.push_back(length);
  }
  std::vector<NcclSettings> candidates;
  const bool is_aware_set = is_set(cluster, nodes, "NCCL_IB_SUBNET_AWARE_ROUTING");
  for (const Family family : {Family::kIpv4, Family::kIpv6}) {
    for (const bool subnet_aware : {false, true}) {
      for (const int prefix_bits : prefixes) {
        for (const bool merge_nics : {true, false}) {
          // Without subnet-aware routing the prefix length has no reader.
          if (!subnet_aware && !is_aware_set && prefix_bits != prefixes.front()) continue;
          candidates.push_back(
              {.subnet_aware = subnet_aware, .merge_nics = merge_nics, .prefix_bits = prefix_bits, .family = family});
        }
      }
    }
  }
  // The fewest variables first.
  const NcclSettings stock;
  const auto changes = [&stock](const NcclSettings& one) {
    return static_cast<int>(one.subnet_aware != stock.subnet_aware) +
           static_cast<int>(one.merge_nics != stock.merge_nics) +
           static_cast<int>(one.prefix_bits != stock.prefix_bits) + static_cast<int>(one.family != stock.family);
  };
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const NcclSettings& one, const NcclSettings& other) { return changes(one) < changes(other); });
  const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const NcclSettings& one) {
    return works(cluster, topology, nodes, one, crosses_rails);
  });
  return found != candidates.end() ? std::optional(*found) : std::nullopt;
}

void unset(Cluster& cluster, std::string_view name) {
  for (Node& node : cluster.nodes) {
    std::erase_if(node.environment, [&](const auto& entry) { return entry.first == name; });
  }
}

}  // namespace

std::optional<WorkingSettings> settings_that_work(const Cluster& cluster, const Topology& topology, int nodes,
                                                  bool crosses_rails) {
  const auto tried = [&](const Cluster& with, std::vector<std::string> without) -> std::optional<WorkingSettings> {
    const auto settings = first_that_works(with, topology, nodes, crosses_rails);
    if (!settings) return std::nullopt;
    return WorkingSettings{*settings, text_of(with, nodes, *settings), std::move(without)};
  };
  if (auto found = tried(cluster, {})) return found;
  std::vector<std::string> given;
  for (const char* name : kRoutingVariables) {
    if (is_set(cluster, nodes, name)) given.emplace_back(name);
  }
  // One of them alone, then one after the other until it works.
  for (const std::string& name : given) {
    Cluster without = cluster;
    unset(without, name);
    if (auto found = tried(without, {name})) return found;
  }
  if (given.size() < 2) return std::nullopt;
  Cluster without = cluster;
  for (const std::string& name : given) unset(without, name);
  return tried(without, given);
}

}  // namespace meshbed::models

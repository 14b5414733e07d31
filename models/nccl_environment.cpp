#include "models/nccl_environment.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "models/lan/bond.h"
#include "models/lan/vlan.h"
#include "plugin/base/hca_list.h"
#include "plugin/base/interface_list.h"

namespace meshbed::models {
namespace {

constexpr std::int64_t kLargestGidIndex = 255;

const Node& node_with(const Cluster& cluster, PortRef port) { return cluster.at(port.node); }
const Nic& nic_with(const Cluster& cluster, PortRef port) {
  return node_with(cluster, port).nics[static_cast<std::size_t>(port.nic)];
}

}  // namespace

std::optional<std::string> variable_of(const Node& node, std::string_view name) {
  const auto found = std::find_if(node.environment.begin(), node.environment.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  if (found == node.environment.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

std::optional<std::int64_t> number_of(const Node& node, std::string_view name, std::int64_t least, std::int64_t most) {
  const auto text = variable_of(node, name);
  if (!text) return std::nullopt;
  char* end = nullptr;
  errno = 0;
  const long long number = std::strtoll(text->c_str(), &end, 0);
  if (*end != '\0' || errno != 0 || number < least || number > most) return std::nullopt;
  return number;
}

bool hca_lets_in(const Cluster& cluster, PortRef port) {
  const auto list = variable_of(node_with(cluster, port), "NCCL_IB_HCA");
  if (!list) return true;
  const Nic& nic = nic_with(cluster, device_of(cluster, port));
  return hca_allowed(*list, nic.device, nic.port);
}

bool has_pinned_gid(const Cluster& cluster, PortRef port) {
  const auto pinned = number_of(node_with(cluster, port), "NCCL_IB_GID_INDEX", 0, kLargestGidIndex);
  const std::vector<GidEntry>& gids = nic_with(cluster, device_of(cluster, port)).gids;
  // A bond's standby function gets its GIDs when it becomes the active one.
  return !pinned || gids.empty() || std::any_of(gids.begin(), gids.end(), [&](const GidEntry& entry) {
    return entry.index == static_cast<std::uint32_t>(*pinned);
  });
}

std::vector<LeftOutNic> left_out_nics(const Cluster& cluster) {
  std::vector<LeftOutNic> found;
  for (std::size_t node = 0; node < cluster.nodes.size(); ++node) {
    const Node& one = cluster.nodes[node];
    if (one.environment.empty()) continue;
    for (std::size_t nic = 0; nic < one.nics.size(); ++nic) {
      const PortRef port{static_cast<int>(node), static_cast<int>(nic)};
      for (const char* name : {"NCCL_IB_HCA", "NCCL_IB_GID_INDEX"}) {
        const bool lets_in =
            name == std::string_view("NCCL_IB_HCA") ? hca_lets_in(cluster, port) : has_pinned_gid(cluster, port);
        if (lets_in) continue;
        found.push_back({port, std::string(name) + "=" + *variable_of(one, name)});
        break;
      }
    }
  }
  return found;
}

Cluster in_use(const Cluster& cluster) {
  Cluster used = cluster;
  for (const LeftOutNic& out : left_out_nics(cluster)) {
    used.nodes[static_cast<std::size_t>(out.port.node)].nics[static_cast<std::size_t>(out.port.nic)].link_up = false;
  }
  return used;
}

std::vector<std::string> socket_interfaces(const Node& node) {
  const std::string list = variable_of(node, "NCCL_SOCKET_IFNAME").value_or("");
  std::vector<std::string> left;
  const auto add = [&](const std::string& netdev) {
    const bool is_new = std::find(left.begin(), left.end(), netdev) == left.end();
    if (is_new && interface_place(list, netdev)) left.push_back(netdev);
  };
  if (node.management) add(node.management->netdev);
  for (const Nic& nic : node.nics) {
    if (!nic.addresses.empty()) add(address_netdev(nic));
  }
  return left;
}

bool has_socket_interface(const Node& node) {
  const bool has_any = node.management || std::any_of(node.nics.begin(), node.nics.end(),
                                                      [](const Nic& nic) { return !nic.addresses.empty(); });
  return !has_any || !variable_of(node, "NCCL_SOCKET_IFNAME") || !socket_interfaces(node).empty();
}

std::vector<std::string> set_variables(const Node& node, const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (const auto value = variable_of(node, name)) found.push_back(name + "=" + *value);
  }
  return found;
}

}  // namespace meshbed::models

#pragma once
// What a node's environment leaves of its NICs and interfaces, for NCCL and for Meshbed's plugin. Pure functions of a
// cluster. Lists are read by the net plugin's own parsers (plugin/base/hca_list.h, plugin/base/interface_list.h), which
// agree with NCCL's but for malformed lists (parseStringList and matchIfList, src/misc/utils.cc 189-247 of v2.30.7-1).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/cluster.h"

namespace meshbed::models {

/// The variable's value on the node; nullopt: unset or empty.
std::optional<std::string> variable_of(const Node& node, std::string_view name);
/// The same as a number, with a prefix 0x or 0 as strtoll(3) takes it; nullopt also where it is none from `least` to
/// `most`, which leaves the default in force.
std::optional<std::int64_t> number_of(const Node& node, std::string_view name, std::int64_t least, std::int64_t most);

/// NCCL_IB_HCA lets the NIC's device and port in. Of a RoCE LAG's function: its device's.
bool hca_lets_in(const Cluster& cluster, PortRef port);
/// The NIC has an entry at NCCL_IB_GID_INDEX, or none is pinned.
bool has_pinned_gid(const Cluster& cluster, PortRef port);

/// A NIC that the environment of its node leaves out, and by what: "NCCL_IB_HCA==rocep1s0f0".
struct LeftOutNic {
  PortRef port;
  std::string setting;
};
/// By node and NIC; RDMA devices with a cable or switch or without.
std::vector<LeftOutNic> left_out_nics(const Cluster& cluster);

/// The cluster as a job uses it: NICs that the environment leaves out are down. Indices stay as they are.
Cluster in_use(const Cluster& cluster);

/// The node's interfaces that NCCL_SOCKET_IFNAME leaves: its management port's and its NICs'.
std::vector<std::string> socket_interfaces(const Node& node);
/// Without any, neither NCCL's bootstrap (ncclFindInterfaces, src/misc/socket.cc 190-234, called by bootstrap.cc 124
/// and net_ib/init.cc 305) nor the engine's starts. Nodes without any interface in the scenario have one.
bool has_socket_interface(const Node& node);

/// Names with values of those variables that are set on the node, in their order: "NCCL_IB_MERGE_NICS=0".
std::vector<std::string> set_variables(const Node& node, const std::vector<std::string>& names);

}  // namespace meshbed::models

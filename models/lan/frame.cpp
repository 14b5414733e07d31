#include "models/lan/frame.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

#include "models/lan/bond.h"

namespace meshbed::models {
namespace {

const Nic& plugged_nic(const Cluster& cluster, PortRef port) { return cluster.nic_of(port); }

/// The ports by which the device hangs on the switch: of a RoCE LAG those of its functions that do.
std::vector<PortRef> plugged_ports(const Cluster& cluster, const Switch& box, PortRef device) {
  std::vector<PortRef> ports = functions_of(cluster, device);
  if (ports.size() == 1) return ports;
  std::erase_if(ports,
                [&](PortRef port) { return std::find(box.ports.begin(), box.ports.end(), port) == box.ports.end(); });
  return ports;
}

/// The largest frame that RDMA of this path MTU makes: a write of one packet with an immediate value.
std::uint32_t largest_frame_bytes(std::uint32_t path_mtu_bytes, Family family) {
  return path_mtu_bytes + packet_headers_bytes(GidType::kRoceV2, family) + kRethBytes + kImmBytes;
}

/// The largest netdev MTU of a segment's ports, and the largest without one port that has it.
struct TwoLargest {
  std::uint32_t first = 0, second = 0;
  void add(std::uint32_t value) {
    second = std::max(second, std::min(first, value));
    first = std::max(first, value);
  }
  /// What a port with `own` uses at most towards the others.
  std::uint32_t shared_with(std::uint32_t own) const { return std::min(own, own == first ? second : first); }
};

}  // namespace

std::vector<SmallSwitchMtu> small_switch_mtus(const Cluster& cluster, const Topology& topology) {
  // By switch, whether single ports have the MTU, whether RDMA passes, MTU.
  std::map<std::tuple<int, bool, bool, std::uint32_t>, SmallSwitchMtu> found;
  for (const Segment& segment : topology.segments) {
    if (segment.cable >= 0) continue;
    TwoLargest largest;
    for (const PortRef port : segment.ports) largest.add(plugged_nic(cluster, port).mtu_bytes);
    std::vector<std::pair<PortRef, int>> ports;  // and their switches, which on the way to a router differ
    for (std::size_t place = 0; place < segment.ports.size(); ++place) {
      const int index = segment.router >= 0 ? segment.port_switches[place] : segment.switch_index;
      const Switch& box = cluster.switches[static_cast<std::size_t>(index)];
      for (const PortRef port : plugged_ports(cluster, box, segment.ports[place])) ports.emplace_back(port, index);
    }
    for (const auto& [port, index] : ports) {
      const Switch& box = cluster.switches[static_cast<std::size_t>(index)];
      const Nic& nic = plugged_nic(cluster, port);
      const std::uint32_t mtu_bytes = switch_port_mtu_bytes(box, nic);
      const std::uint32_t used_bytes = largest.shared_with(nic.mtu_bytes);
      if (mtu_bytes == 0 || mtu_bytes >= used_bytes) continue;
      const std::uint32_t path_mtu_bytes = rdma_mtu_bytes(used_bytes);
      const bool rdma_passes = mtu_bytes >= largest_frame_bytes(path_mtu_bytes, segment.subnet.address.family);
      const bool of_port = nic.switch_mtu_bytes != 0;
      SmallSwitchMtu& group = found[{index, of_port, rdma_passes, mtu_bytes}];
      group.switch_index = index;
      group.mtu_bytes = mtu_bytes;
      group.of_switch = !of_port;
      group.rdma_is_lost = !rdma_passes;
      group.ports.push_back(port);
      group.path_mtu_bytes = std::max(group.path_mtu_bytes, path_mtu_bytes);
      group.needed_bytes = std::max(group.needed_bytes, used_bytes);
    }
  }
  std::vector<SmallSwitchMtu> all;
  for (auto& [key, group] : found) {
    std::sort(group.ports.begin(), group.ports.end());
    group.ports.erase(std::unique(group.ports.begin(), group.ports.end()), group.ports.end());
    all.push_back(std::move(group));
  }
  return all;
}

}  // namespace meshbed::models

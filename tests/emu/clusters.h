#pragma once
// Clusters of nodes node0, node1, ... for the tests of the emulated world.

#include <fmt/format.h>

#include <cstddef>

#include "emu/cluster.h"

namespace meshbed::test {

inline emu::EmuNic nic_on_wire(int node, int nic, int wire) {
  emu::EmuNic made;
  made.netdev = fmt::format("cable{}", nic);
  made.rdma_device = fmt::format("rdma{}", nic);
  made.mac = fmt::format("02:00:00:00:{:02x}:{:02x}", node, nic);
  made.addresses = {fmt::format("192.168.{}.{}/24", 100 + wire, node + 1)};
  made.wire = wire;
  return made;
}

/// A cable between every two nodes, each its own subnet.
inline emu::EmuCluster mesh_cluster(int nodes) {
  emu::EmuCluster cluster;
  cluster.nodes.resize(static_cast<std::size_t>(nodes));
  for (int node = 0; node < nodes; ++node)
    cluster.nodes[static_cast<std::size_t>(node)].name = fmt::format("node{}", node);
  for (int left = 0; left < nodes; ++left) {
    for (int right = left + 1; right < nodes; ++right) {
      for (const int end : {left, right}) {
        auto& nics = cluster.nodes[static_cast<std::size_t>(end)].nics;
        nics.push_back(nic_on_wire(end, static_cast<int>(nics.size()), cluster.wires));
      }
      ++cluster.wires;
    }
  }
  return cluster;
}

/// One NIC a node, all on one switch.
inline emu::EmuCluster switch_cluster_of(int nodes) {
  emu::EmuCluster cluster{.nodes = {}, .wires = 1};
  for (int node = 0; node < nodes; ++node) {
    emu::EmuNode one;
    one.name = fmt::format("node{}", node);
    one.nics = {nic_on_wire(node, 0, 0)};
    cluster.nodes.push_back(one);
  }
  return cluster;
}

}  // namespace meshbed::test

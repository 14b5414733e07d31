#pragma once
// Clusters with bonds, for tests.

#include <utility>

#include "models/cluster.h"

namespace meshbed::test {

/// The cluster with the first two NICs of each node in a bond, bond0, which has the first one's addresses; as a RoCE
/// LAG its device is mlx5_bond_0.
inline models::Cluster bonded(models::Cluster cluster, models::BondMode mode, bool lag) {
  for (models::Node& node : cluster.nodes) {
    node.bonds.push_back({.name = "bond0", .mode = mode, .lag = lag, .functions = {0, 1}});
    models::Nic& first = node.nics.at(0);
    models::Nic& other = node.nics.at(1);
    first.bond = other.bond = 0;
    other.addresses.clear();
    other.gids.clear();
    first.netdev = "bond0";
    if (lag) first.function = std::exchange(first.device, "mlx5_bond_0");
  }
  return cluster;
}

}  // namespace meshbed::test

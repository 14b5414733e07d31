#pragma once
// Cablings: all ways to cable nodes with a given number of NICs each, up to isomorphism. Pure functions of values; any
// thread.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace meshbed::testbed::plan {

/// Cables from NIC to NIC, several between two nodes if so listed, and `switches` switches on which each node has one
/// NIC.
struct Cabling {
  int nodes = 0;
  std::vector<std::pair<int, int>> cables = {};  // by node, the lower one first, in ascending order
  int switches = 0;

  /// A node's NICs that are in use.
  int nics_of(int node) const;
  /// Cables of both kinds.
  std::size_t cable_count() const;
  /// Every node reaches every other one.
  bool is_connected() const;
  /// Cables from node to node at least, in the mean over all pairs; a switch counts as one. 0 if not connected.
  double mean_distance() const;
};

/// All cablings of `nodes` nodes with `nics` NICs each in which all nodes reach each other, one for each class of
/// isomorphic ones; with up to `switches_max` switches. Those with fewer cables come first.
/// Throws std::runtime_error if there are more than `most`.
std::vector<Cabling> connected_cablings(int nodes, int nics, int switches_max, std::size_t most);

/// "ring", "line", "full mesh", "star", "pair", with "x 2" for parallel cables, "switch", "2 switches"; otherwise the
/// cables as in "0-1 0-2 1-2 2-3". Equal for equal cablings only.
std::string name_of(const Cabling& cabling);

}  // namespace meshbed::testbed::plan

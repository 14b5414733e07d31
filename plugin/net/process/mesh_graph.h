#pragma once
// The cabling as a graph: nodes and the cables between them. Pure values; equal graphs give equal results on every
// machine, so that each rank can decide by itself.
//
// Nomenclature: cables(a, b) is the length of the shortest chain from a to b; a way is that chain, with the lowest node
// among equals at each step; a tour is an order of all nodes that ends where it began.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace meshbed::net {

class MeshGraph {
 public:
  /// Larger clusters use switches, and the best tour costs 2^n n^2 steps.
  static constexpr int kNodesMost = 16;

  /// Without cables. 1 <= nodes <= kNodesMost.
  explicit MeshGraph(int nodes);
  void join(int left, int right);

  int nodes() const { return nodes_; }
  bool joined(int left, int right) const { return (neighbours_[at(left)] >> static_cast<unsigned>(right) & 1U) != 0; }
  /// Every pair has a cable.
  bool full() const;
  bool connected() const;
  /// 0: the same node; kApart: there is no chain.
  int cables(int from, int to) const;
  static constexpr int kApart = 1 << 20;
  /// The nodes after `from` up to `to`, which must not be apart.
  std::vector<int> way(int from, int to) const;

  /// The tour of fewest cables that begins at node 0; among equals the first in the order of node numbers. Requires a
  /// connected graph.
  std::vector<int> shortest_tour() const;
  /// Node i of the result is node order[i] of this one.
  MeshGraph renumbered(const std::vector<int>& order) const;

  bool operator==(const MeshGraph&) const = default;

 private:
  static std::size_t at(int node) { return static_cast<std::size_t>(node); }

  int nodes_;
  std::array<std::uint32_t, kNodesMost> neighbours_{};  // a bit a node
};

/// The load of the cables by traffic: the weights of all ways, summed by cable and direction.
class CableLoad {
 public:
  explicit CableLoad(const MeshGraph& graph) : graph_(graph) {}
  void add(int from, int to, double weight);
  /// The largest load of any cable and direction.
  double most() const;

 private:
  const MeshGraph& graph_;
  std::array<std::array<double, MeshGraph::kNodesMost>, MeshGraph::kNodesMost> load_{};
};

}  // namespace meshbed::net

#pragma once
// What the algorithms of NCCL send between nodes, and what that costs on a mesh where some of it must be relayed. Pure
// functions of values: ranks that know the same graph change their cost tables in the same way, which they must, for
// each chooses for itself.
//
// Nomenclature: nodes are numbered as NCCL numbers them. An edge is a pair of nodes that an algorithm connects; it is
// relayed where it is longer than one cable. A load is relative: 1 is what a cable carries under a ring on cables.

#include <cstddef>
#include <vector>

#include "plugin/nccl/tuner_abi.h"
#include "plugin/net/process/mesh_graph.h"

namespace meshbed::nccl {

struct Edge {
  int from = 0, to = 0;
  double weight = 0;
  bool operator==(const Edge&) const = default;
};

/// Node i to node i + 1, the last one to the first.
std::vector<Edge> ring_edges(int nodes);
/// The parent of each node in NCCL's two trees; -1: the root. First: node 0 is the root; a node whose number ends in a
/// 1 and k zeros hangs on the one whose number ends in a 1 and k + 1 zeros, the nearer below it if the nearer above is
/// beyond the end. Second: the first mirrored (an even number of nodes) or moved by one (odd), so that inner nodes of
/// one are mostly leaves of the other. Each carries half of the data, both ways.
std::vector<int> tree_parents(int nodes, bool second);
std::vector<Edge> tree_edges(int nodes);
/// PAT: in round k a node sends to the one 2^k behind it, and what it sends grows with k.
std::vector<Edge> pat_edges(int nodes);

/// An algorithm on a mesh.
struct Detour {
  bool relays = false;
  double load = 1;       // of the cable that has most, at least 1
  int extra_cables = 0;  // beyond one an edge, along the longest chain of sends that wait for each other, in one pass
  bool operator==(const Detour&) const = default;
};
/// Of tree, ring, NVLSTree (between nodes: the same trees) and PAT. The other algorithms, which are not known to send
/// between nodes that way, never relay. The graph must be connected.
Detour detour_of(const net::MeshGraph& graph, int algorithm);

/// What one more cable costs a message of `size_bytes`, microseconds.
double extra_cable_us(std::size_t size_bytes);

/// How one communicator's tables are changed.
class TunerPrices {
 public:
  /// Leaves tables alone.
  TunerPrices() = default;
  explicit TunerPrices(const net::MeshGraph& graph);

  /// Nothing is relayed, or nothing is known.
  bool idle() const { return idle_; }
  const Detour& of(int algorithm) const { return detours_[static_cast<std::size_t>(algorithm)]; }
  /// Does it send over other nodes while a ring does not?
  bool drops(int algorithm) const { return of(algorithm).relays && !of(kAlgoRing).relays; }

  struct Call {
    int collective = kAllReduce;
    std::size_t size_bytes = 0;
    int algorithms = 0, protocols = 0;  // rows and columns of the table
  };
  /// Ignores what is dropped, unless the table has no ring to take instead; prices all others that relay.
  void apply(const Call& call, float* table) const;

 private:
  bool idle_ = true;
  std::vector<Detour> detours_ = std::vector<Detour>(kAlgorithms);
};

}  // namespace meshbed::nccl

#pragma once
// Mesh: which ranks share cables, and the spanning trees that carry a collective over all of them. Pure.
//
// Nomenclature: cable - all that joins two ranks directly, as one; it carries its rate in each direction at once.
// Strength - least, over all ways to part the ranks into k > 1 groups, of (rate of the cables between groups) / (k-1).
// Load of a cable - the share of the trees that cross it. AlgorithmProtocol - which of the connections with a peer a
// tree goes over: trees that share a cable have one each, so that none waits for another's data.
//
// An all_reduce of S bytes sends each byte over 2(k-1) cables between the groups at least, half of it each way, so it
// takes no less than S / strength; and trees that load all cables alike reach that (Nash-Williams and Tutte, 1961). The
// greedy packing comes close: each next tree is a minimum spanning tree by load over rate (Thorup 2007), of those one
// of the least depth, and of so many trees as many are kept as serve best. Up to kMeshTreesMax ranks, a ring of n
// gets its n lines and a full mesh its n stars; a line and a star get themselves. Several times: with the ranks as they
// are numbered, and in orders that follow from the cables alone; the best packing is kept. Cost of n ranks with m
// cables: m log n for each tree from each top, n m for the ways. Above kEveryTopMost ranks few tops are tried.
// Memory: n + m; up to kWaysKeptMost ranks, where all ways are kept, n^2.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace meshbed::coll {

struct Branch {
  int rank = -1;
  int way = 0;
};

struct MeshTree {
  int top = 0;                                // no other rank is closer to all of them
  std::vector<std::vector<Branch>> branches;  // [rank], by rank
};

/// All that joins two ranks directly; rate of each direction.
struct MeshCable {
  int a = -1, b = -1, mbps = 0;
  bool operator==(const MeshCable&) const = default;
};

/// The cables of each rank, by peer; each cable twice, once from either end. Of a rank: from begin[rank] to
/// begin[rank + 1].
struct CableLists {
  std::vector<std::size_t> begin{0};
  std::vector<int> peers, mbps;
  std::vector<std::size_t> back;  // the same cable from its other end

  /// Index in the lists; kNone: the two ranks have no cable.
  static constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t find(int from, int to) const;
  std::size_t count() const { return peers.size(); }
};
/// Of ranks that are there; two of the same ends are one cable.
CableLists cable_lists(int ranks, const std::vector<MeshCable>& cables);

/// No trees: not all ranks hang together.
struct Mesh {
  int ranks = 0;
  CableLists cables;
  // [rank] what all of a rank's cables carry together, each direction; empty: as much as they are.
  std::vector<int> rank_mbps;
  // [rank * ranks + to] the next rank on the way to `to`: fewest cables, then lowest ranks; -1: it is there. Empty
  // above kWaysKeptMost ranks.
  std::vector<std::int16_t> next;
  std::vector<MeshTree> trees;  // each for an equal share of the data

  /// 0: no cable.
  int mbps(int from, int to) const {
    const std::size_t cable = cables.find(from, to);
    return cable == CableLists::kNone ? 0 : cables.mbps[cable];
  }
  /// Up to kWaysKeptMost ranks.
  int next_on_way(int from, int to) const { return next[static_cast<std::size_t>(from * ranks + to)]; }
  int hops(int from, int to) const {
    int count = 0;
    for (int rank = from; rank != to; rank = next_on_way(rank, to)) ++count;
    return count;
  }
  /// The ranks behind `from` on the way, `to` included; above kWaysKeptMost ranks none where they are more than
  /// `hops_most`.
  std::vector<int> way(int from, int to, int hops_most) const;
};

inline constexpr int kMeshTreesMax = 8;
inline constexpr int kEveryTopMost = 64;
/// Each rank of a job has its own mesh, for which n^2 numbers of more ranks are too many.
inline constexpr int kWaysKeptMost = 256;

/// `cables`, `rank_mbps`: as Mesh's; no cables: there are no trees. Trees are packed by the cables alone: what a rank
/// carries over all of its cables is the same for every packing that loads them alike.
Mesh make_mesh(int ranks, const std::vector<MeshCable>& cables, std::vector<int> rank_mbps = {});
/// [rank * ranks + rank] the rate, the same both ways; 0: no cable.
std::vector<MeshCable> cables_of_matrix(int ranks, const std::vector<int>& cable_mbps);
std::vector<int> matrix_of_cables(const Mesh& mesh);
/// Of `mesh`'s cables, what is between those ranks, numbered in their order.
std::vector<MeshCable> cables_among(const Mesh& mesh, const std::vector<int>& members);

/// A tree as one of its ranks sees it.
struct TreeView {
  std::vector<int> distances;  // [rank] cables from here
  std::vector<int> toward;     // [rank] index of our branch that leads there; -1: that is us
};
TreeView view_of(const MeshTree& tree, int rank);

}  // namespace meshbed::coll

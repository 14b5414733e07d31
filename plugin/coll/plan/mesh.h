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

/// Trees and ways: none where not all ranks hang together.
struct Mesh {
  int ranks = 0;
  std::vector<int> cable_mbps;  // [rank * ranks + rank]; 0: no cable
  // [rank] what all of a rank's cables carry together, each direction; empty: as much as they are.
  std::vector<int> rank_mbps;
  // [rank * ranks + to] the next rank on the way to `to`: fewest cables, then lowest ranks; -1: it is there.
  std::vector<std::int16_t> next;
  std::vector<MeshTree> trees;  // each for an equal share of the data

  int mbps(int from, int to) const { return cable_mbps[static_cast<std::size_t>(from * ranks + to)]; }
  int next_on_way(int from, int to) const { return next[static_cast<std::size_t>(from * ranks + to)]; }
  /// Cables that a message crosses; 0: to itself. Takes as many steps.
  int hops(int from, int to) const {
    int count = 0;
    for (int rank = from; rank != to; rank = next_on_way(rank, to)) ++count;
    return count;
  }
};

inline constexpr int kMeshTreesMax = 8;
inline constexpr int kEveryTopMost = 64;
/// Of more ranks n^2 numbers are too many: each rank of a job has its own.
inline constexpr int kMeshRanksMost = 256;

/// `cable_mbps`, `rank_mbps`: as Mesh's, the same in both directions; no cables, or more than kMeshRanksMost ranks:
/// there are no trees. Trees are packed by the cables alone: what a rank carries over all of its cables is the same for
/// every packing that loads them alike.
Mesh make_mesh(int ranks, std::vector<int> cable_mbps, std::vector<int> rank_mbps = {});
/// Of `mesh`'s cables, what is between those ranks, in their order.
std::vector<int> cables_among(const Mesh& mesh, const std::vector<int>& members);

/// A tree as one of its ranks sees it.
struct TreeView {
  std::vector<int> distances;  // [rank] cables from here
  std::vector<int> toward;     // [rank] index of our branch that leads there; -1: that is us
};
TreeView view_of(const MeshTree& tree, int rank);

}  // namespace meshbed::coll

#pragma once
// Root trees: the spanning trees that carry a broadcast from its root, or a reduce to it, over all cables at once.
// Pure.
//
// Nomenclature as in mesh.h; in addition: cut - the rate of all cables between some ranks and the others, in one
// direction. Load - the share of the data that a cable carries, over its rate; the busiest one's counts.
//
// All of S bytes must come into each part of the ranks without the root: S / (least cut of these) at least. Of a graph
// whose least cut from the root is k cables, k trees can be packed that share no cable in one direction (Edmonds 1973);
// each with 1/k of the data, they take just that. They are peeled off one by one as in Lovasz's proof (1976): a tree
// takes a cable into a rank that it lacks if the remaining cables still admit k-1 trees into that rank, which a flow
// computes. Here a cable counts as often as its share of the load has room for a tree, and of 1 to kMeshTreesMax trees
// as many are packed as load the busiest cable least. A full mesh of n gets n-1 trees, a ring its two lines, a line and
// a star themselves. The other way round they carry the reduce. Cost of m cables: a flow, m, for each cable and tree at
// most: n^4 for a full mesh, so callers keep the result. Above kWaysKeptMost ranks there is one tree, in m.

#include <cstdint>
#include <vector>

#include "plugin/coll/plan/mesh.h"

namespace meshbed::coll {

struct PlanRequest;

struct RootTrees {
  std::vector<MeshTree> one;     // the shallowest of the widest trees: for little data
  std::vector<MeshTree> packed;  // each for an equal share; above kWaysKeptMost ranks `one`
  std::uint64_t packed_from_bytes = 0;
};

/// `mesh` joins all its ranks.
RootTrees root_trees(const Mesh& mesh, int root);

/// The trees of a request whose algorithm is mesh.
const std::vector<MeshTree>& trees_of(const PlanRequest& request);

}  // namespace meshbed::coll

// A root's trees as equations: over cables only, no more of them on one than the load says, and as fast as a cut
// allows.
#include "plugin/coll/plan/root_trees.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "models/cut.h"
#include "plugin/coll/plan/cable_load.h"
#include "tests/coll/mesh_graphs.h"

namespace root_trees_test {

using namespace meshbed;
using namespace meshbed::coll;
using namespace meshbed::test;

namespace {

void check_trees(const Mesh& mesh, int root, const std::vector<MeshTree>& trees) {
  REQUIRE(!trees.empty());
  CHECK(trees.size() <= kMeshTreesMax);
  std::vector<int> crossings(matrix_of_cables(mesh).size());
  for (const MeshTree& tree : trees) {
    CHECK(tree.top == root);
    const std::vector<int> distances = view_of(tree, root).distances;
    CHECK(std::count(distances.begin(), distances.end(), 0) == 1);  // with n - 1 cables: a tree
    std::size_t branches = 0;
    for (int rank = 0; rank < mesh.ranks; ++rank) {
      for (const Branch& branch : tree.branches[static_cast<std::size_t>(rank)]) {
        ++branches;
        CHECK(mesh.mbps(rank, branch.rank) > 0);
        const bool away = distances[static_cast<std::size_t>(branch.rank)] > distances[static_cast<std::size_t>(rank)];
        // Trees that go one way over a cable have a connection each.
        if (away) CHECK(branch.way == crossings[static_cast<std::size_t>(rank * mesh.ranks + branch.rank)]++);
      }
    }
    CHECK(branches == 2 * static_cast<std::size_t>(mesh.ranks - 1));
  }
}

/// How often the time that the least cut allows goes into that of the busiest cable.
double over_bound(const Mesh& mesh, int root, Collective collective) {
  constexpr double kNsPerByteAtOneMbps = 8000;
  const RootTrees trees = root_trees(mesh, root);
  check_trees(mesh, root, trees.one);
  check_trees(mesh, root, trees.packed);
  CHECK(trees.one.size() == 1);
  PlanRequest request{.collective = collective, .ranks = mesh.ranks, .root = root};
  request.count = 1U << 30U;
  request.mesh = &mesh;
  request.root_trees = &trees;
  return cable_load(Algorithm::kMesh, request).ns_per_byte *
         models::least_cut(mesh.ranks, matrix_of_cables(mesh), root) / kNsPerByteAtOneMbps;
}

void check_bound(const Mesh& mesh) {
  for (int root = 0; root < mesh.ranks; ++root) {
    INFO("root ", root);
    CHECK(over_bound(mesh, root, Collective::kBroadcast) == doctest::Approx(1));
    CHECK(over_bound(mesh, root, Collective::kReduce) == doctest::Approx(1));
  }
}

}  // namespace

TEST_CASE("a root on a ring or torus of many ranks has as many trees as its ranks have cables") {
  struct Torus {
    int x, y, cables;
  };
  for (const Torus& torus : {Torus{100, 1, 2}, Torus{8, 16, 4}, Torus{5, 13, 4}, Torus{256, 1, 2}, Torus{16, 16, 4}}) {
    std::vector<std::pair<int, int>> pairs;
    const int ranks = torus.x * torus.y;
    for (int rank = 0; rank < ranks; ++rank) {
      const int x = rank % torus.x, y = rank / torus.x;
      pairs.emplace_back(rank, y * torus.x + (x + 1) % torus.x);
      if (torus.y > 1) pairs.emplace_back(rank, (y + 1) % torus.y * torus.x + x);
    }
    CAPTURE(ranks);
    const Mesh mesh = make_mesh(ranks, cables_of(ranks, pairs));
    const RootTrees trees = root_trees(mesh, 3);
    check_trees(mesh, 3, trees.packed);
    PlanRequest request{.collective = Collective::kBroadcast, .ranks = ranks, .root = 3};
    request.count = 1U << 30U;
    request.mesh = &mesh;
    request.root_trees = &trees;
    CHECK(cable_load(Algorithm::kMesh, request).ns_per_byte == doctest::Approx(8000.0 / (torus.cables * kCableMbps)));
  }
}

TEST_CASE("on each named cabling, full mesh and ring, a root's trees load no cable more than its least cut must be") {
  for (const MeshGraph& graph : named_graphs()) {
    INFO(graph.name);
    check_bound(make_mesh(graph.ranks, graph.cables()));
  }
  for (int ranks = 3; ranks <= 9; ++ranks) {
    std::vector<std::pair<int, int>> all, ring;
    for (int a = 0; a < ranks; ++a) {
      ring.emplace_back(a, (a + 1) % ranks);
      for (int b = a + 1; b < ranks; ++b) all.emplace_back(a, b);
    }
    INFO("ranks ", ranks);
    const Mesh full = make_mesh(ranks, cables_of(ranks, all)), round = make_mesh(ranks, cables_of(ranks, ring));
    check_bound(full);
    check_bound(round);
    CHECK(root_trees(full, 1).packed.size() == static_cast<std::size_t>(ranks - 1));
    CHECK(root_trees(round, 1).packed.size() == 2);
    // A full mesh's need no more than a rank between: deeper ones would only fill later.
    for (const MeshTree& tree : root_trees(full, 1).packed) {
      const std::vector<int> distances = view_of(tree, 1).distances;
      CHECK(*std::max_element(distances.begin(), distances.end()) <= 2);
    }
  }
}

TEST_CASE("random cablings, some cables beside others: a root's trees reach its least cut") {
  for (int ranks = 2; ranks <= 9; ++ranks) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      INFO("ranks ", ranks, " seed ", seed);
      const Mesh mesh = make_mesh(ranks, random_cables(ranks, static_cast<int>(seed), seed));
      // So many trees at most: of wider cuts, as near as they come.
      for (int root = 0; root < ranks; ++root) {
        const bool fits = models::least_cut(ranks, matrix_of_cables(mesh), root) <= kMeshTreesMax * kCableMbps;
        const double over = over_bound(mesh, root, Collective::kBroadcast);
        CHECK(over >= doctest::Approx(1));
        CHECK(over <= (fits ? 1.0001 : 1.15));
      }
    }
  }
}

TEST_CASE("rates that differ: a fast cable carries more of a root's trees") {
  // To rank 2 directly at 100, and by rank 1 at 200: 3 trees of 100 reach both.
  const Mesh mesh = make_mesh(3, {0, 200, 100, 200, 0, 200, 100, 200, 0});
  CHECK(root_trees(mesh, 0).packed.size() == 3);
  check_bound(mesh);
}

TEST_CASE("little data goes over one tree, the shallowest; a ring's two lines are for more") {
  const Mesh ring = make_mesh(8, cables_of(8, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 7}, {7, 0}}));
  const RootTrees trees = root_trees(ring, 3);
  PlanRequest request{.collective = Collective::kBroadcast, .ranks = 8, .root = 3, .count = 2};
  request.mesh = &ring;
  request.root_trees = &trees;
  CHECK(trees_of(request).size() == 1);
  const std::vector<int> distances = view_of(trees_of(request).front(), 3).distances;
  CHECK(*std::max_element(distances.begin(), distances.end()) == 4);
  request.count = 1 << 20;
  CHECK(trees_of(request).size() == 2);
}

}  // namespace root_trees_test

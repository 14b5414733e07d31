// The trees of a mesh as equations: over cables only, all of them used, and as fast as the cables allow.
#include "plugin/coll/plan/mesh.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include "models/strength.h"
#include "plugin/coll/plan/cable_load.h"
#include "plugin/coll/plan/root_trees.h"
#include "plugin/coll/plan/schedule.h"
#include "plugin/coll/plan/torus_shape.h"
#include "tests/coll/mesh_graphs.h"

namespace mesh_test {

using namespace meshbed::coll;
using namespace meshbed::test;

namespace {

PlanRequest request_on(const Mesh& mesh, Collective collective = Collective::kAllReduce) {
  PlanRequest request{.collective = collective, .ranks = mesh.ranks};
  request.mesh = &mesh;
  request.count = 16 << 20;
  return request;
}

/// How often the time that the cables allow goes into that of the trees' busiest cable.
double over_bound(const Mesh& mesh) {
  constexpr double kNsPerByteAtOneMbps = 8000;
  const double bound = kNsPerByteAtOneMbps / meshbed::models::strength(mesh.ranks, matrix_of_cables(mesh));
  return cable_load(Algorithm::kMesh, request_on(mesh)).ns_per_byte / bound;
}

void check_trees(const Mesh& mesh) {
  REQUIRE(!mesh.trees.empty());
  CHECK(mesh.trees.size() <= kMeshTreesMax);
  std::vector<std::vector<int>> ways(matrix_of_cables(mesh).size());
  for (const MeshTree& tree : mesh.trees) {
    std::size_t branches = 0;
    for (int rank = 0; rank < mesh.ranks; ++rank) {
      for (const Branch& branch : tree.branches[static_cast<std::size_t>(rank)]) {
        ++branches;
        CHECK(mesh.mbps(rank, branch.rank) > 0);
        ways[static_cast<std::size_t>(rank * mesh.ranks + branch.rank)].push_back(branch.way);
      }
    }
    CHECK(branches == 2 * static_cast<std::size_t>(mesh.ranks - 1));
    const std::vector<int> distances = view_of(tree, tree.top).distances;
    CHECK(std::count(distances.begin(), distances.end(), 0) == 1);  // with n - 1 cables: a tree
  }
  for (const std::vector<int>& of_cable : ways) {
    for (std::size_t i = 0; i < of_cable.size(); ++i) CHECK(of_cable[i] == static_cast<int>(i));
  }
}

}  // namespace

TEST_CASE("the trees of each named cabling load its busiest cable no more than any all_reduce must") {
  for (const MeshGraph& graph : named_graphs()) {
    INFO(graph.name);
    const Mesh mesh = make_mesh(graph.ranks, graph.cables());
    check_trees(mesh);
    CHECK(over_bound(mesh) == doctest::Approx(1));
  }
}

TEST_CASE("a full mesh gets its stars, a ring its lines, a line and a star themselves") {
  for (int ranks = 3; ranks <= kMeshTreesMax; ++ranks) {
    std::vector<std::pair<int, int>> all, ring;
    for (int a = 0; a < ranks; ++a) {
      ring.emplace_back(a, (a + 1) % ranks);
      for (int b = a + 1; b < ranks; ++b) all.emplace_back(a, b);
    }
    for (const auto& pairs : {all, ring}) {
      const Mesh mesh = make_mesh(ranks, cables_of(ranks, pairs));
      check_trees(mesh);
      CHECK(over_bound(mesh) == doctest::Approx(1));
      const bool full = pairs.size() == all.size();
      for (const MeshTree& tree : mesh.trees) {
        const std::vector<int> distances = view_of(tree, tree.top).distances;
        CHECK(*std::max_element(distances.begin(), distances.end()) == (full ? 1 : ranks / 2));
      }
      CHECK(mesh.trees.size() == static_cast<std::size_t>(ranks));
    }
  }
  for (const char* name : {"line4", "star5"}) {
    for (const MeshGraph& graph : named_graphs()) {
      if (graph.name == std::string(name)) CHECK(make_mesh(graph.ranks, graph.cables()).trees.size() == 1);
    }
  }
}

TEST_CASE(
    "tori that differ in their numbers alone cost the same; a cube mesh with doubled cables comes near its bound") {
  const auto torus = [](const std::vector<int>& shape) {
    int ranks = 1, stride = 1;
    for (const int length : shape) ranks *= length;
    std::vector<std::pair<int, int>> pairs;
    for (const int length : shape) {
      for (int rank = 0; rank < ranks; ++rank) {
        const int place = rank / stride % length;
        const bool wraps = place == length - 1;
        if (!wraps || length > 2) pairs.emplace_back(rank, wraps ? rank - place * stride : rank + stride);
      }
      stride *= length;
    }
    return make_mesh(ranks, cables_of(ranks, pairs));
  };
  for (const auto& [one, other] : std::vector<std::pair<std::vector<int>, std::vector<int>>>{
           {{2, 8}, {8, 2}}, {{3, 4}, {4, 3}}, {{3, 5}, {5, 3}}, {{2, 2, 4}, {4, 2, 2}}}) {
    const Mesh left = torus(one), right = torus(other);
    check_trees(left);
    check_trees(right);
    CHECK(left.trees.size() == right.trees.size());
    CHECK(cable_load(Algorithm::kMesh, request_on(left)).ns_per_byte ==
          doctest::Approx(cable_load(Algorithm::kMesh, request_on(right)).ns_per_byte));
    CHECK(cost_ns(Algorithm::kMesh, request_on(left), {}) ==
          doctest::Approx(cost_ns(Algorithm::kMesh, request_on(right), {})));
  }
  // Eight ranks with doubled cables, as in a DGX-1 (hybrid cube mesh): within a tenth of what any all_reduce must take.
  const std::vector<std::pair<int, int>> cube_mesh{{0, 1}, {0, 2}, {0, 3}, {0, 3}, {0, 4}, {0, 4}, {1, 2}, {1, 2},
                                                   {1, 3}, {1, 5}, {1, 5}, {2, 3}, {2, 3}, {2, 6}, {3, 7}, {4, 5},
                                                   {4, 6}, {4, 7}, {4, 7}, {5, 6}, {5, 6}, {5, 7}, {6, 7}, {6, 7}};
  CHECK(over_bound(make_mesh(8, cables_of(8, cube_mesh))) < 1.1);
}

TEST_CASE("random connected cablings: trees over cables only, at most a quarter over what any all_reduce must take") {
  double worst = 1, sum = 0;
  int meshes = 0;
  for (int ranks = 2; ranks <= 7; ++ranks) {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      INFO("ranks ", ranks, " seed ", seed);
      const Mesh mesh = make_mesh(ranks, random_cables(ranks, static_cast<int>(seed % 12), seed));
      check_trees(mesh);
      worst = std::max(worst, over_bound(mesh));
      sum += over_bound(mesh);
      ++meshes;
    }
  }
  MESSAGE("worst ", worst, ", on average ", sum / meshes);
  CHECK(worst <= 1.25);
}

TEST_CASE("the way between any two ranks goes over cables, and over no more of them than it must") {
  std::vector<Mesh> meshes;
  for (const MeshGraph& graph : named_graphs()) meshes.push_back(make_mesh(graph.ranks, graph.cables()));
  for (const int ranks : {2, 9, 17, 33}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      meshes.push_back(make_mesh(ranks, random_cables(ranks, static_cast<int>(3 * seed), seed)));
    }
  }
  for (const Mesh& mesh : meshes) {
    const int n = mesh.ranks;
    const auto at = [n](int from, int to) { return static_cast<std::size_t>(from * n + to); };
    std::vector<int> hops(matrix_of_cables(mesh).size(), n);  // Floyd's and Warshall's
    for (int from = 0; from < n; ++from) {
      for (int to = 0; to < n; ++to) hops[at(from, to)] = from == to ? 0 : mesh.mbps(from, to) > 0 ? 1 : n;
    }
    for (int over = 0; over < n; ++over) {
      for (int from = 0; from < n; ++from) {
        for (int to = 0; to < n; ++to) {
          hops[at(from, to)] = std::min(hops[at(from, to)], hops[at(from, over)] + hops[at(over, to)]);
        }
      }
    }
    REQUIRE(mesh.next.size() == matrix_of_cables(mesh).size());
    for (int from = 0; from < n; ++from) {
      for (int to = 0; to < n; ++to) {
        int rank = from;
        for (int left = hops[at(from, to)]; left > 0; --left) {
          const int next = mesh.next_on_way(rank, to);
          REQUIRE(next >= 0);
          CHECK(mesh.mbps(rank, next) > 0);
          rank = next;
        }
        CHECK(rank == to);
        CHECK(mesh.next_on_way(to, to) == -1);
        CHECK(mesh.hops(from, to) == hops[at(from, to)]);
      }
    }
  }
}

TEST_CASE("tori of more ranks than all tops are tried for have trees over all of their cables") {
  struct Torus {
    int x, y, z;
  };
  for (const Torus& torus : {Torus{4, 4, 8}, Torus{16, 16, 1}, Torus{4, 8, 8}, Torus{5, 13, 1}, Torus{3, 5, 7}}) {
    std::vector<std::pair<int, int>> pairs;
    const auto rank_at = [&](int x, int y, int z) {
      return (x % torus.x * torus.y + y % torus.y) * torus.z + z % torus.z;
    };
    for (int x = 0; x < torus.x; ++x) {
      for (int y = 0; y < torus.y; ++y) {
        for (int z = 0; z < torus.z; ++z) {
          if (torus.x > 1) pairs.emplace_back(rank_at(x, y, z), rank_at(x + 1, y, z));
          if (torus.y > 1) pairs.emplace_back(rank_at(x, y, z), rank_at(x, y + 1, z));
          if (torus.z > 1) pairs.emplace_back(rank_at(x, y, z), rank_at(x, y, z + 1));
        }
      }
    }
    const int ranks = torus.x * torus.y * torus.z;
    CAPTURE(ranks);
    const Mesh mesh = make_mesh(ranks, cables_of(ranks, pairs));
    check_trees(mesh);
    // A torus's strength is that of all its cables over n - 1 (models/strength.h would take long).
    const double strength = static_cast<double>(pairs.size()) * kCableMbps / (ranks - 1);
    CHECK(cable_load(Algorithm::kMesh, request_on(mesh)).ns_per_byte * strength / 8000 < 1.3);
    const RootTrees trees = root_trees(mesh, ranks / 2);
    REQUIRE(trees.one.size() == 1);
    // Little data by one tree, much by all: the same schedule at both ends of each cable.
    for (const std::uint64_t count : {std::uint64_t{8}, std::uint64_t{1} << 24U}) {
      PlanRequest request = request_on(mesh, Collective::kBroadcast);
      request.root = ranks / 2;
      request.root_trees = &trees;
      request.count = count;
      std::vector<std::uint64_t> balance(static_cast<std::size_t>(ranks));
      for (request.rank = 0; request.rank < ranks; ++request.rank) {
        for (const Transfer& transfer : make_schedule(Algorithm::kMesh, request).transfers) {
          if (transfer.receives) balance[static_cast<std::size_t>(request.rank)] += transfer.range.count;
        }
      }
      for (int rank = 0; rank < ranks; ++rank) {
        CHECK(balance[static_cast<std::size_t>(rank)] == (rank == request.root ? 0 : count));
      }
    }
  }
}

TEST_CASE("no algorithm is chosen whose connections would be too long") {
  for (const int ranks : {18, 64, 100}) {
    std::vector<std::pair<int, int>> pairs;
    for (int rank = 0; rank < ranks; ++rank) pairs.emplace_back(rank, (rank + 1) % ranks);
    const Mesh mesh = make_mesh(ranks, cables_of(ranks, pairs));
    for (const std::uint64_t count : {2, 1000, 100'000, 10'000'000}) {
      PlanRequest request = request_on(mesh);
      request.count = count;
      const Algorithm chosen = choose_algorithm({.automatic = true}, request, {});
      CHECK((chosen == Algorithm::kRing || chosen == Algorithm::kMesh));
      CHECK(std::isinf(cost_ns(Algorithm::kDirect, request, {})));
    }
  }
}

TEST_CASE("ranks that do not hang together have no trees") {
  CHECK(make_mesh(3, cables_of(3, {{0, 1}})).trees.empty());
  CHECK(make_mesh(1, std::vector<int>{0}).trees.empty());
  CHECK(make_mesh(3, std::vector<int>{}).trees.empty());  // not known
}

TEST_CASE("the cables among some of the ranks, in their order") {
  const Mesh mesh = make_mesh(4, cables_of(4, {{0, 1}, {1, 2}, {2, 3}}));
  const std::vector<MeshCable> wanted{{1, 2, kCableMbps}, {0, 2, kCableMbps}};
  CHECK(cables_among(mesh, {3, 1, 2}) == wanted);
}

TEST_CASE("a cable's load is what all ranks' schedules send over it, relays included") {
  for (const MeshGraph& graph : named_graphs()) {
    const Mesh mesh = make_mesh(graph.ranks, graph.cables());
    for (int which = 1; which < kAlgorithms; ++which) {
      const auto algorithm = static_cast<Algorithm>(which);
      for (const auto collective : {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
                                    Collective::kBroadcast, Collective::kReduce}) {
        if (!has_schedule(algorithm, collective)) continue;
        PlanRequest request = request_on(mesh, collective);
        request.root = graph.ranks / 2;
        const RootTrees from_root = root_trees(mesh, request.root);
        request.root_trees = &from_root;
        const TorusShape torus = torus_shape(mesh, torus_shape(make_mesh(graph.ranks, std::vector<int>{}), {}).lengths);
        if (algorithm == Algorithm::kTorus && torus.lengths.empty()) continue;
        request.torus = &torus;
        // Every algorithm's shares of this are whole numbers, or nearly so.
        request.count = 8 * 3 * 5 * 7 * 100;
        std::vector<std::uint64_t> sent(matrix_of_cables(mesh).size());
        for (request.rank = 0; request.rank < graph.ranks; ++request.rank) {
          for (const Transfer& transfer : make_schedule(algorithm, request).transfers) {
            if (transfer.receives) continue;
            for (int rank = request.rank; rank != transfer.peer;) {
              const int next = mesh.next_on_way(rank, transfer.peer);
              sent[static_cast<std::size_t>(rank * graph.ranks + next)] += transfer.range.count;
              rank = next;
            }
          }
        }
        double busiest = 0;
        for (std::size_t cable = 0; cable < sent.size(); ++cable) {
          if (sent[cable] == 0) continue;
          busiest = std::max(busiest, static_cast<double>(sent[cable]) * 8000 / matrix_of_cables(mesh)[cable]);
        }
        INFO(graph.name, " ", name_of(algorithm), " ", name_of(collective));
        CHECK(cable_load(algorithm, request).ns_per_byte * static_cast<double>(request.count) ==
              doctest::Approx(busiest).epsilon(1e-3));
      }
    }
  }
}

}  // namespace mesh_test

// Which algorithm is chosen: by name where it does the collective, by cost where it is left to us.
#include "plugin/coll/plan/algorithm.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "plugin/coll/plan/cable_load.h"
#include "plugin/coll/plan/mesh.h"
#include "plugin/coll/plan/root_trees.h"
#include "tests/coll/mesh_graphs.h"

namespace algorithm_test {

using namespace meshbed::coll;
using namespace meshbed::test;

namespace {

PlanRequest all_reduce_of(int ranks, std::uint64_t bytes, Collective collective = Collective::kAllReduce) {
  PlanRequest request{.collective = collective, .ranks = ranks};
  request.count = bytes / request.element_bytes;
  return request;
}

}  // namespace

TEST_CASE("algorithms have the names that they are asked for by, and no other name is taken") {
  for (const std::string& name : algorithm_names()) {
    const auto choice = parse_algorithm(name);
    REQUIRE(choice);
    CHECK(choice->automatic == (name == "auto"));
    if (!choice->automatic) CHECK(name_of(choice->algorithm) == name);
  }
  CHECK(algorithm_names().size() == kAlgorithms + 1);
  for (const char* name : {"", "Ring", "trees", "unknown"}) CHECK_FALSE(parse_algorithm(name).has_value());
}

TEST_CASE("an algorithm that lacks a collective leaves it to the ring") {
  const auto chosen = [](Algorithm asked, Collective collective) {
    return choose_algorithm({.algorithm = asked}, all_reduce_of(8, 1024, collective), {});
  };
  for (int each = 0; each <= static_cast<int>(Collective::kScatter); ++each) {
    const auto collective = static_cast<Collective>(each);
    const bool rooted = collective == Collective::kBroadcast || collective == Collective::kReduce;
    const bool all = collective == Collective::kAllReduce;
    CHECK((chosen(Algorithm::kTree, collective) == Algorithm::kTree) == (all || rooted));
    CHECK((chosen(Algorithm::kHalvingDoubling, collective) == Algorithm::kHalvingDoubling) == all);
    const bool blocks = collective == Collective::kAllGather || collective == Collective::kReduceScatter;
    CHECK((chosen(Algorithm::kDirect, collective) == Algorithm::kDirect) == (all || blocks));
    CHECK(chosen(Algorithm::kRing, collective) == Algorithm::kRing);
    CHECK(chosen(Algorithm::kMesh, collective) == Algorithm::kRing);  // the cables are not known
    const Mesh mesh = make_mesh(2, cables_of(2, {{0, 1}}));
    PlanRequest cabled = all_reduce_of(2, 1024, collective);
    cabled.mesh = &mesh;
    const RootTrees from_root = root_trees(mesh, 0);
    cabled.root_trees = &from_root;
    CHECK((choose_algorithm({.algorithm = Algorithm::kMesh}, cabled, {}) == Algorithm::kMesh) ==
          (all || rooted || blocks));
  }
}

TEST_CASE("the cheapest: few messages for small sizes, few bytes for large ones, no far hops where they cost more") {
  const auto chosen = [](int ranks, std::uint64_t bytes, double hops) {
    return choose_algorithm({.automatic = true}, all_reduce_of(ranks, bytes), {.hops = hops});
  };
  CHECK(chosen(1, 1024, 1) == Algorithm::kRing);
  CHECK(chosen(8, 8, 1) != Algorithm::kRing);
  CHECK(chosen(16, 65536, 1) != Algorithm::kRing);
  CHECK(chosen(8, 256 << 10, 1) == Algorithm::kDirect);  // on a switch: 49.3 us, round the ring 74.4
  CHECK(chosen(8, 1 << 20, 1) == Algorithm::kRing);      // 156.8 us, directly 177.7
  CHECK(chosen(7, 64 << 20, 1) == Algorithm::kRing);
  CHECK(chosen(8, 64 << 20, 2.2) == Algorithm::kRing);
  CHECK(chosen(4, 65536, 4) == Algorithm::kRing);
}

TEST_CASE("where the cables are known, a large all_reduce takes what loads them least: no relays, and all of them") {
  for (const MeshGraph& graph : named_graphs()) {
    INFO(graph.name);
    const Mesh mesh = make_mesh(graph.ranks, graph.cables());
    PlanRequest request = all_reduce_of(graph.ranks, 64 << 20);
    request.mesh = &mesh;
    const Algorithm chosen = choose_algorithm({.automatic = true}, request, {.gigabits_per_s = 1});
    const std::string name = graph.name;
    // Two ranks, and a full mesh, have all their cables in use from the first slice on: round the ring, or directly.
    CHECK(chosen == (name == "dual-rail"  ? Algorithm::kRing
                     : name == "triangle" ? Algorithm::kDirect
                                          : Algorithm::kMesh));
  }
}

TEST_CASE("what a rank carries over all its cables bounds every algorithm") {
  // A ring of four on two cables each: a rank's cables carry 4 x 100 Gb/s, and its PCIe links 200 of them.
  std::vector<int> cables = cables_of(4, {{0, 1}, {1, 2}, {2, 3}, {3, 0}});
  for (int& mbps : cables) mbps = mbps > 0 ? 200'000 : 0;
  const Mesh wide = make_mesh(4, cables), narrow = make_mesh(4, cables, {200'000, 200'000, 200'000, 200'000});
  PlanRequest request = all_reduce_of(4, 64 << 20);
  const auto load = [&](const Mesh& mesh, Algorithm algorithm) {
    request.mesh = &mesh;
    return cable_load(algorithm, request).ns_per_byte;
  };
  // 2 (n-1) / n of the bytes out of each rank: over one cable round the ring, over both by trees; at 25 GB/s.
  CHECK(load(wide, Algorithm::kRing) == doctest::Approx(1.5 / 25));
  CHECK(load(narrow, Algorithm::kRing) == doctest::Approx(1.5 / 25));
  CHECK(load(wide, Algorithm::kMesh) < 1.1 / 25);
  CHECK(load(narrow, Algorithm::kMesh) >= 1.5 / 25 * 0.999);
}

TEST_CASE(
    "costs are the alpha-beta formulas: 2(n-1) messages round a ring, 2 log2 n of the others, and 2 before them") {
  const CostModel model{.gigabits_per_s = 8, .message_ns = 1000, .hop_ns = 100, .hops = 1};
  const PlanRequest request = all_reduce_of(8, 8000);
  CHECK(cost_ns(Algorithm::kRing, request, model) == doctest::Approx(16 * 1000 + 14000));
  // Four levels but the last ones of either way hand a slice, half of the data, to two children or have it from them.
  CHECK(cost_ns(Algorithm::kTree, request, model) == doctest::Approx(8 * 1000 + 16000 + 2 * 4 * 4000));
  CHECK(cost_ns(Algorithm::kHalvingDoubling, request, model) == doctest::Approx(8 * 1000 + 14000));
  CHECK(cost_ns(Algorithm::kDirect, request, model) == doctest::Approx(4 * 1000 + 14000));
  // Five ranks: one pair is folded, four halve.
  const PlanRequest five = all_reduce_of(5, 8000);
  CHECK(cost_ns(Algorithm::kHalvingDoubling, five, model) == doctest::Approx(8 * 1000 + 12000 + 16000));
  CHECK(cost_ns(Algorithm::kRing, all_reduce_of(1, 8000), model) == 0);
}

TEST_CASE("round the ring a message's way is hidden behind the other slices of its chunk") {
  const CostModel model{.gigabits_per_s = 8, .message_ns = 1000, .hop_ns = 100, .hops = 1};
  // Chunks of 1 MiB in eight slices; one way remains, that of the last slice.
  CHECK(cost_ns(Algorithm::kRing, all_reduce_of(8, 8 << 20), model) == doctest::Approx(14 * (1 << 20) + 3000));
  // 64 KiB and 16 bytes: two slices, the second of which hides next to nothing of 1000 ns.
  const double chunk_ns = 65552, slice_ns = 65536;
  CHECK(cost_ns(Algorithm::kRing, all_reduce_of(8, 8 * 65552), model) ==
        doctest::Approx(2000 + 14 * (1000 + slice_ns) + chunk_ns - slice_ns));
}

TEST_CASE("halving and doubling wait for one another's first slices, each over a cable of its own") {
  // A cube: each of the three distances has its own cables.
  std::vector<int> cables(64, 0);
  for (int rank = 0; rank < 8; ++rank) {
    for (const int distance : {1, 2, 4}) cables[static_cast<std::size_t>(rank * 8 + (rank ^ distance))] = 100'000;
  }
  const Mesh mesh = make_mesh(8, cables);
  PlanRequest request = all_reduce_of(8, 65536);
  request.mesh = &mesh;
  // 64 KiB over the cables of the first distance; a quarter and an eighth of it twice over the others, at 12.5 GB/s.
  CHECK(cost_ns(Algorithm::kHalvingDoubling, request, {}) ==
        doctest::Approx(8 * 1000 + (65536 + 2 * (16384 + 8192)) / 12.5));
}

TEST_CASE(
    "on three ranks the pair's exchange begins when half of the fold has come: halving costs half as much again") {
  // A line of three: the fold fills a cable once, as a tree of the mesh does; but what rank 1 hands on comes last.
  const Mesh mesh = make_mesh(3, cables_of(3, {{0, 1}, {1, 2}}));
  PlanRequest request = all_reduce_of(3, 64 << 20);
  request.mesh = &mesh;
  const CostModel model{.gigabits_per_s = 1};
  const double once_ns = static_cast<double>(request.count) * 4 * 8;
  CHECK(cost_ns(Algorithm::kHalvingDoubling, request, model) > 1.5 * once_ns);
  CHECK(cost_ns(Algorithm::kHalvingDoubling, request, model) < 1.6 * once_ns);
  CHECK(cost_ns(Algorithm::kMesh, request, model) < 1.1 * once_ns);
  for (const std::uint64_t bytes : {64U << 10U, 1U << 20U, 16U << 20U, 64U << 20U}) {
    CAPTURE(bytes);
    request.count = bytes / request.element_bytes;
    CHECK(choose_algorithm({.automatic = true}, request, model) == Algorithm::kMesh);
  }
}

TEST_CASE("what is dearer than another algorithm by its bytes alone is not played") {
  const Mesh mesh = make_mesh(3, cables_of(3, {{0, 1}, {1, 2}}));
  PlanRequest request = all_reduce_of(3, 64 << 20);
  request.mesh = &mesh;
  const CostModel model{.gigabits_per_s = 1};
  for (const Algorithm algorithm : {Algorithm::kTree, Algorithm::kHalvingDoubling}) {
    const double played_ns = cost_ns(algorithm, request, model);
    CHECK(cost_ns(algorithm, request, model, Protocol::kSimple, 1) < played_ns);
    CHECK(cost_ns(algorithm, request, model, Protocol::kSimple, 1) >= 1);
    CHECK(cost_ns(algorithm, request, model, Protocol::kSimple, 2 * played_ns) == played_ns);
  }
}

TEST_CASE("a message over relays costs its first one most: 2 us a hop, and those behind it one") {
  // A line of four: halving's second and third step cross the middle, directly a step crosses all three cables.
  const Mesh mesh = make_mesh(4, cables_of(4, {{0, 1}, {1, 2}, {2, 3}}));
  PlanRequest request = all_reduce_of(4, 0);
  request.mesh = &mesh;
  const CostModel model{.message_ns = 1000, .hop_ns = 3000};
  PlanRequest little = all_reduce_of(4, 16);
  little.mesh = &mesh;
  CHECK(cost_ns(Algorithm::kHalvingDoubling, little, model) ==
        doctest::Approx((2 + 4) * 1000 + 2 * 1000).epsilon(0.05));
  CHECK(cost_ns(Algorithm::kDirect, request, model) == doctest::Approx((2 + 2) * 1000 + 2 * 3000 + 2 * 1000));
  CHECK(cost_ns(Algorithm::kMesh, request, model) == doctest::Approx((2 + 4) * 1000));
}

// results/bench holds the times of every algorithm in each of these (`meshbed bench planner --sweep`).
TEST_CASE("the choice is the one that the simulation measured as the fastest, where two are within a few percent") {
  const auto chosen = [](const Mesh& mesh, std::uint64_t bytes) {
    PlanRequest request = all_reduce_of(mesh.ranks, bytes);
    request.mesh = &mesh;
    return std::string(name_of(choose_algorithm({.automatic = true}, request, {})));
  };
  const auto mesh_of = [](int ranks, const std::vector<std::pair<int, int>>& pairs, int mbps,
                          std::vector<int> rank_mbps = {}) {
    std::vector<int> cables = cables_of(ranks, pairs);
    for (int& cable : cables) cable = cable > 0 ? mbps : 0;
    return make_mesh(ranks, cables, std::move(rank_mbps));
  };
  const std::vector<std::pair<int, int>> three{{0, 1}, {1, 2}, {0, 2}};
  const Mesh triangle = mesh_of(3, three, 100'000), four_rails = mesh_of(3, three, 400'000);
  CHECK(chosen(triangle, 16 << 10) == "direct");                                   // 4.91 us, mesh 4.92
  CHECK(chosen(triangle, 64 << 10) == "mesh");                                     // 7.15 us, directly 7.59
  CHECK(chosen(triangle, 256 << 10) == "direct");                                  // 17.29 us, mesh 17.83
  CHECK(chosen(four_rails, 64 << 10) == "direct");                                 // 4.97 us, mesh 5.28
  CHECK(chosen(four_rails, 256 << 10) == "mesh");                                  // 7.30 us, directly 8.53
  const Mesh two_rails = mesh_of(3, three, 200'000, {200'000, 200'000, 200'000});  // over one PCIe link a node
  CHECK(chosen(two_rails, 64 << 10) == "direct");                                  // 8.68 us, mesh 8.91
  CHECK(chosen(two_rails, 256 << 10) == "ring");  // 17.62 us, mesh 18.94, directly 19.04
  const Mesh line = mesh_of(4, {{0, 1}, {1, 2}, {2, 3}}, 100'000);
  CHECK(chosen(line, 4 << 10) == "mesh");               // 7.35 us, halving 8.74
  CHECK(chosen(line, 16 << 10) == "halving-doubling");  // 10.74 us, mesh 11.36
  CHECK(chosen(line, 64 << 10) == "mesh");              // 15.38 us, halving 18.77
}

namespace {

/// Graphs of the sweep's random ones, at 100 Gb/s a cable.
Mesh random_mesh(int number) {
  std::vector<int> cables = number == 1 ? cables_of(7, {{0, 1}, {1, 2}, {2, 3}, {1, 4}, {4, 5}, {5, 6}})
                                        : cables_of(4, {{0, 1}, {1, 2}, {0, 3}, {0, 2}, {1, 0}, {0, 1}});
  for (int& cable : cables) cable *= 100;
  return make_mesh(number == 1 ? 7 : 4, cables);
}

}  // namespace

TEST_CASE("where ring neighbours have relays between them the costs of ring, direct and mesh are the simulation's") {
  struct Measured {
    int graph;
    Collective collective;
    std::uint64_t bytes;
    double ring_us, direct_us, mesh_us;
  };
  const std::vector<Measured> all{{1, Collective::kAllGather, 65632, 25.7, 21.9, 10.9},
                                  {1, Collective::kAllGather, 1048656, 101.9, 172.8, 76.5},
                                  {1, Collective::kAllReduce, 65536, 46.2, 34.2, 20.1},
                                  {1, Collective::kAllReduce, 1048576, 175.7, 316.8, 107.3},
                                  {2, Collective::kAllGather, 65536, 11.5, 10.4, 7.2},
                                  {2, Collective::kAllGather, 1048576, 75.7, 74.7, 67.3},
                                  {2, Collective::kReduceScatter, 1048576, 75.7, 74.7, 67.3},
                                  {2, Collective::kAllReduce, 1048576, 140.1, 139.0, 92.6}};
  for (const Measured& row : all) {
    CAPTURE(row.graph);
    CAPTURE(name_of(row.collective));
    CAPTURE(row.bytes);
    const Mesh mesh = random_mesh(row.graph);
    const bool blocks = row.collective != Collective::kAllReduce;
    PlanRequest request =
        all_reduce_of(mesh.ranks, row.bytes / static_cast<std::uint64_t>(blocks ? mesh.ranks : 1), row.collective);
    request.mesh = &mesh;
    const auto close = [&](Algorithm algorithm, double us, double share) {
      CHECK(cost_ns(algorithm, request, {}) / 1000 == doctest::Approx(us).epsilon(share));
    };
    close(Algorithm::kRing, row.ring_us, 0.1);
    close(Algorithm::kDirect, row.direct_us, 0.18);
    close(Algorithm::kMesh, row.mesh_us, 0.04);
    CHECK(choose_algorithm({.automatic = true}, request, {}) == Algorithm::kMesh);
  }
}

TEST_CASE("a bound that only equals the best cost does not win: a broadcast goes by mesh where it does not branch") {
  // By mesh 8.4 us, by tree 18.5, whose bytes alone would take as long as the mesh does.
  const Mesh mesh = random_mesh(2);
  const RootTrees trees = root_trees(mesh, 0);
  for (const Collective collective : {Collective::kBroadcast, Collective::kReduce}) {
    for (const std::uint64_t bytes : {64U << 10U, 1U << 20U, 16U << 20U}) {
      CAPTURE(bytes);
      PlanRequest request = all_reduce_of(4, bytes, collective);
      request.mesh = &mesh;
      request.root_trees = &trees;
      CHECK(choose_algorithm({.automatic = true}, request, {}) == Algorithm::kMesh);
    }
  }
}

TEST_CASE("of several cables between two ranks a short message uses one, and a long one all: the cost knows it") {
  std::vector<int> cables(16, 0);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const std::size_t next = (rank + 1) % 4;
    cables[rank * 4 + next] = cables[next * 4 + rank] = 400'000;  // four of 100 Gb/s
  }
  const Mesh mesh = make_mesh(4, cables);
  const auto cost_of = [&](std::uint64_t bytes, double gigabits) {
    PlanRequest request = all_reduce_of(4, bytes);
    request.mesh = &mesh;
    return cost_ns(Algorithm::kMesh, request, {.gigabits_per_s = gigabits});
  };
  CHECK(cost_of(4096, 100) > cost_of(4096, 400));           // 1 KiB a tree
  CHECK(cost_of(16 << 20, 100) == cost_of(16 << 20, 400));  // slices of 128 KiB
  PlanRequest request = all_reduce_of(4, 65536);
  request.mesh = &mesh;
  CHECK(choose_algorithm({.automatic = true}, request, {}) == Algorithm::kMesh);
}

}  // namespace algorithm_test

// Shapes of ranks, and the schedules that go round their rings: run in memory, without network or threads.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "plugin/base/prng.h"
#include "plugin/coll/plan/cable_load.h"
#include "plugin/coll/plan/root_trees.h"
#include "plugin/coll/plan/schedule.h"
#include "plugin/coll/plan/torus_cost.h"
#include "plugin/coll/plan/torus_shape.h"
#include "tests/coll/mesh_graphs.h"
#include "tests/coll/schedule_model.h"

namespace torus_test {

using namespace meshbed::coll;
using namespace meshbed::test;

namespace {

int ranks_of(const std::vector<int>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), 1, std::multiplies<>());
}

/// Each cable once; a ring of two has one.
std::vector<MeshCable> torus_cables(const std::vector<int>& lengths, int mbps = kCableMbps) {
  std::vector<MeshCable> cables;
  int stride = 1;
  for (const int length : lengths) {
    for (int rank = 0; rank < ranks_of(lengths); ++rank) {
      const int place = rank / stride % length;
      if (length == 2 && place == 1) continue;
      cables.push_back({rank, rank + ((place + 1) % length - place) * stride, mbps});
    }
    stride *= length;
  }
  return cables;
}

TorusShape shape_on(const std::vector<MeshCable>& cables, int ranks, const std::vector<int>& wanted = {}) {
  return torus_shape(make_mesh(ranks, cables), wanted);
}

}  // namespace

TEST_CASE("the cables of a torus give its shape, of any lengths; others give none") {
  const std::vector<std::vector<int>> shapes{{3},       {8},       {2, 3},    {3, 2},       {4, 4},     {2, 8}, {8, 2},
                                             {2, 2, 2}, {3, 4, 5}, {4, 4, 8}, {2, 3, 2, 4}, {8, 8, 16}, {5, 64}};
  for (const std::vector<int>& lengths : shapes) {
    const int ranks = ranks_of(lengths);
    INFO("ranks ", ranks);
    std::vector<MeshCable> cables = torus_cables(lengths);
    const TorusShape shape = shape_on(cables, ranks);
    CHECK(shape.by_cables);
    // A torus of rings of four is one of more rings of two, numbered otherwise: but not with these numbers.
    CHECK(shape.lengths == lengths);
    CHECK(shape.begins.back() == 65536);
    if (ranks > 4) {
      std::vector<MeshCable> less = cables;
      less.erase(less.begin() + 3);
      CHECK(shape_on(less, ranks).lengths.empty());
      std::vector<MeshCable> more = cables;
      const auto joined = [&](int to) { return make_mesh(ranks, cables).mbps(0, to) > 0; };
      int far = 1;
      while (far < ranks && joined(far)) ++far;
      if (far < ranks) {
        more.push_back({0, far, kCableMbps});
        CHECK(shape_on(more, ranks).lengths.empty());
      }
    }
  }
}

TEST_CASE("behind switches ranks have the prime factors of their number, and a prime none") {
  CHECK(shape_on({}, 96).lengths == std::vector<int>{2, 2, 2, 2, 2, 3});
  CHECK(shape_on({}, 1000).lengths == std::vector<int>{2, 2, 2, 5, 5, 5});
  CHECK(shape_on({}, 65'536).lengths.size() == 16);
  CHECK(shape_on({}, 2).lengths.empty());
  CHECK(shape_on({}, 97).lengths.empty());
  CHECK(shape_on({}, 24, {6, 4}).lengths == std::vector<int>{6, 4});
  CHECK(!shape_on({}, 24, {6, 4}).by_cables);
  CHECK(shape_on({}, 24, {6, 4}).parts() == 1);
}

TEST_CASE("parts share out all elements, and load the cables of every dimension alike") {
  for (const std::vector<int>& lengths :
       std::vector<std::vector<int>>{{4, 4, 8}, {2, 8}, {3, 3}, {3, 4, 5}, {16, 16}}) {
    const TorusShape shape = shape_on(torus_cables(lengths), ranks_of(lengths));
    for (const std::uint64_t count : {0ULL, 1ULL, 5ULL, 97ULL, 65'537ULL, 1ULL << 40U}) {
      std::uint64_t next = 0;
      for (int part = 0; part < shape.parts(); ++part) {
        const Range share = shape.share(part, count);
        CHECK(share.begin == next);
        next = end_of(share);
      }
      CHECK(next == count);
    }
    // What crosses a cable is no more than a part in twelve above what all cables alike would have.
    const double n = shape.lengths.empty() ? 1 : ranks_of(lengths);
    double wires = 0;
    std::vector<double> load(lengths.size());
    for (std::size_t dimension = 0; dimension < lengths.size(); ++dimension) {
      wires += lengths[dimension] == 2 ? 1 : 2;
      for (int part = 0; part < shape.parts(); ++part) {
        const double share =
            (shape.begins[static_cast<std::size_t>(part) + 1] - shape.begins[static_cast<std::size_t>(part)]) / 65536.0;
        if (shape.is_up(part) || lengths[dimension] == 2)
          load[dimension] += share * sent_by_dimension(shape, part)[dimension];
      }
    }
    CHECK(*std::max_element(load.begin(), load.end()) < (n - 1) / n / wires * 1.13);
  }
}

TEST_CASE("cost: on cables near the bytes of the busiest one, behind switches log steps; infinite on other cables") {
  const std::vector<int> lengths{4, 4, 8};
  const Mesh mesh = make_mesh(128, torus_cables(lengths, 100'000));
  const TorusShape shape = torus_shape(mesh, {});
  PlanRequest request{.collective = Collective::kAllReduce, .ranks = 128, .count = 64 << 20, .mesh = &mesh};
  request.torus = &shape;
  // 256 MiB over six ways of 100 Gb/s: 2 (127/128) S / 6.
  const double bytes_ns = 2.0 * 127 / 128 * (256 << 20) * 8 / 100 / 6;
  const double ns = cost_ns(Algorithm::kTorus, request, {});
  CHECK(ns > bytes_ns);
  CHECK(ns < bytes_ns * 1.12);
  CHECK(choose_algorithm({.automatic = true}, request, {}) == Algorithm::kTorus);
  // The closed form's busiest cable is the one that all ranks' messages load.
  const double busiest_ns = cable_load(Algorithm::kTorus, request).ns_per_byte * (256 << 20);
  CHECK(busiest_ns < ns);
  CHECK(busiest_ns > bytes_ns * 0.999);
  request.count = 2;
  CHECK(cost_ns(Algorithm::kTorus, request, {}) > 2 * (3 + 3 + 7) * 1000.0);
  const TorusShape other = torus_shape(mesh, {2, 64});
  request.torus = &other;
  CHECK(std::isinf(cost_ns(Algorithm::kTorus, request, {})));

  const TorusShape primes = torus_shape(make_mesh(1000, std::vector<MeshCable>{}), {});
  PlanRequest switched{.collective = Collective::kAllReduce, .ranks = 1000, .count = 16 << 20};
  switched.torus = &primes;
  CHECK(choose_algorithm({.automatic = true}, switched, {}) == Algorithm::kTorus);
  switched.ranks = 1024;
  const TorusShape twos = torus_shape(make_mesh(1024, std::vector<MeshCable>{}), {});
  switched.torus = &twos;
  CHECK(choose_algorithm({.automatic = true}, switched, {}) == Algorithm::kTorus);  // in pieces
  switched.count = 1000;
  CHECK(choose_algorithm({.automatic = true}, switched, {}) == Algorithm::kHalvingDoubling);  // the same in one piece
}

TEST_CASE("of many thousand ranks shapes, trees and choices take a moment") {
  const std::vector<int> lengths{32, 32, 64};
  const int ranks = ranks_of(lengths);
  const Mesh mesh = make_mesh(ranks, torus_cables(lengths, 100'000));
  CHECK(mesh.next.empty());
  CHECK(!mesh.trees.empty());
  const TorusShape shape = torus_shape(mesh, {});
  CHECK(shape.lengths == lengths);
  PlanRequest request{
      .collective = Collective::kAllReduce, .rank = 4711, .ranks = ranks, .count = 64 << 20, .mesh = &mesh};
  request.torus = &shape;
  CHECK(choose_algorithm({.automatic = true}, request, {}) == Algorithm::kTorus);
  const Schedule schedule = make_schedule(Algorithm::kTorus, request);
  CHECK(schedule.transfers.size() == 16 * 2 * 2 * 6 * (31 + 31 + 63));  // in 16 pieces
  const RootTrees from_root = root_trees(mesh, 7);
  request.collective = Collective::kBroadcast;
  request.root = 7;
  request.root_trees = &from_root;
  CHECK(choose_algorithm({.automatic = true}, request, {}) == Algorithm::kMesh);
}

TEST_CASE("torus: each contribution once, 2(n-1) S bytes or n(n-1) b, on cables' shapes and on any other") {
  const std::vector<std::vector<int>> shapes{{3},    {2, 2},    {2, 3},    {3, 2},       {4, 4}, {2, 8},
                                             {5, 2}, {2, 2, 2}, {3, 2, 4}, {2, 3, 2, 2}, {7, 4}, {33}};
  for (const std::vector<int>& lengths : shapes) {
    const int ranks = ranks_of(lengths);
    for (const bool by_cables : {false, true}) {
      if (!by_cables && lengths.size() < 2) continue;
      const Mesh mesh = make_mesh(ranks, by_cables ? torus_cables(lengths) : std::vector<MeshCable>{});
      const TorusShape torus = torus_shape(mesh, lengths);
      REQUIRE(torus.by_cables == by_cables);
      for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter}) {
        for (const std::uint64_t count : {0, 1, 5, 97}) {
          for (const int channels : {1, 2}) {
            for (const std::uint64_t partial_bytes : {kElementBytes, 2 * kElementBytes}) {
              if (collective == Collective::kAllGather && partial_bytes != kElementBytes) continue;
              INFO("ranks ", ranks, " count ", count, " channels ", channels, " partial ", partial_bytes);
              const Case what{.algorithm = Algorithm::kTorus,
                              .collective = collective,
                              .ranks = ranks,
                              .count = count,
                              .channels = channels,
                              .partial_bytes = partial_bytes,
                              .mesh = &mesh,
                              .torus = &torus};
              const std::vector<RankModel> models = run_case(what);
              std::uint64_t sent = 0;
              for (const RankModel& model : models) sent += model.sent_bytes;
              if (collective == Collective::kAllGather) {
                gathered_once(what, models, sent);
                continue;
              }
              for (const RankModel& model : models) CHECK(all_equal(model.output, everybody(ranks)));
              if (partial_bytes != kElementBytes) continue;
              const std::uint64_t blocks = collective == Collective::kAllReduce ? 2 : models.size();
              CHECK(sent == blocks * edges(what) * count * kElementBytes);
            }
          }
        }
      }
    }
  }
}

}  // namespace torus_test

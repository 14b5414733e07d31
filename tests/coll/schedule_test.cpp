// The schedules as equations: run in memory, without network or threads, over their whole small space.
#include "plugin/coll/plan/schedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include "plugin/base/prng.h"
#include "plugin/coll/plan/root_trees.h"
#include "tests/coll/mesh_graphs.h"
#include "tests/coll/schedule_model.h"
#include "tests/support/walk.h"

namespace schedule_test {

using namespace meshbed::coll;
using namespace meshbed::test;

namespace {

/// `check(case, ranks, bytes that all of them sent)`.
template <typename Check>
void walk_space(Algorithm algorithm, Collective collective, bool reduces, Check check) {
  for (const std::uint64_t partial_bytes : {kElementBytes, 2 * kElementBytes}) {
    if (!reduces && partial_bytes != kElementBytes) continue;
    const auto on = [&](int ranks, std::uint64_t count, int channels) {
      const Case what{algorithm, collective, ranks, count, channels, partial_bytes, 5 * kElementBytes, ranks / 2};
      INFO("ranks ", ranks, " count ", count, " channels ", channels, " partial ", partial_bytes);
      const std::vector<RankModel> models = run_case(what);
      std::uint64_t sent_bytes = 0;
      for (const RankModel& model : models) sent_bytes += model.sent_bytes;
      check(what, models, sent_bytes);
    };
    for (int ranks = 1; ranks <= 33; ++ranks) {
      for (const std::uint64_t count : {0, 1, 2, 5, 31, 97}) {
        for (const int channels : {1, 2, 3}) {
          if (ranks <= 9 || channels == 1) on(ranks, count, channels);
        }
      }
    }
  }
}

/// Bytes up a tree of n ranks with so many leaves, for each element: leaves send elements, branches partial results.
std::uint64_t bytes_up(const Case& what, int leaves) {
  if (what.ranks == 1) return 0;
  return static_cast<std::uint64_t>(leaves) * kElementBytes +
         static_cast<std::uint64_t>(what.ranks - 1 - leaves) * what.partial_bytes;
}

/// The named cablings and random ones of 2..9 ranks.
std::vector<Mesh> small_meshes() {
  std::vector<Mesh> meshes;
  for (const MeshGraph& graph : named_graphs()) meshes.push_back(make_mesh(graph.ranks, graph.cables()));
  for (int ranks = 2; ranks <= 9; ++ranks) {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      meshes.push_back(make_mesh(ranks, random_cables(ranks, static_cast<int>(3 * seed), seed)));
    }
  }
  return meshes;
}

/// One random cabling of 10..33 ranks each, and at the end a ring, a line, a star and a full mesh.
std::vector<Mesh> large_meshes() {
  constexpr int kFirst = 10, kLast = 33;
  std::vector<Mesh> meshes;
  for (int ranks = kFirst; ranks <= kLast; ++ranks) {
    meshes.push_back(make_mesh(ranks, random_cables(ranks, ranks, static_cast<std::uint64_t>(ranks))));
  }
  std::vector<std::pair<int, int>> line, star, full;
  for (int rank = 1; rank < kLast; ++rank) {
    line.emplace_back(rank - 1, rank);
    star.emplace_back(0, rank);
    for (int other = 0; other < rank; ++other) full.emplace_back(other, rank);
  }
  std::vector<std::pair<int, int>> ring = line;
  ring.emplace_back(kLast - 1, 0);
  for (const auto& pairs : {ring, line, star, full}) meshes.push_back(make_mesh(kLast, cables_of(kLast, pairs)));
  return meshes;
}

/// `check(case, ranks, bytes that all of them sent)`.
template <typename Check>
void walk_meshes(const std::vector<Mesh>& meshes, Collective collective, bool reduces, Check check,
                 bool always_packed = true) {
  const auto on = [&](const Mesh& mesh, std::uint64_t partial_bytes, std::uint64_t count, int channels) {
    RootTrees from_root = root_trees(mesh, mesh.ranks / 2);
    if (always_packed) from_root.packed_from_bytes = 0;
    const Case what{.algorithm = Algorithm::kMesh,
                    .collective = collective,
                    .ranks = mesh.ranks,
                    .count = count,
                    .channels = channels,
                    .partial_bytes = partial_bytes,
                    .root = mesh.ranks / 2,
                    .mesh = &mesh,
                    .root_trees = &from_root};
    INFO("ranks ", mesh.ranks, " count ", count, " channels ", channels, " partial ", partial_bytes);
    const std::vector<RankModel> models = run_case(what);
    std::uint64_t sent_bytes = 0;
    for (const RankModel& model : models) {
      sent_bytes += model.sent_bytes;
      for (const Transfer& transfer : model.schedule.transfers) {
        CHECK(mesh.mbps(model.schedule.request.rank, transfer.peer) > 0);
      }
    }
    check(what, models, sent_bytes);
  };
  for (const Mesh& mesh : meshes) {
    for (const std::uint64_t count : {0, 1, 5, 97}) {
      for (const int channels : {1, 3}) {
        on(mesh, kElementBytes, count, channels);
        if (reduces) on(mesh, 2 * kElementBytes, count, channels);
      }
    }
  }
}

/// Up the trees, each to its own top or all to the root: leaves send elements, branches partial results.
std::uint64_t bytes_up_meshes(const Case& what, int root) {
  std::uint64_t bytes = 0;
  const auto channels = static_cast<std::uint64_t>(what.channels);
  for (std::uint64_t channel = 0; channel < channels; ++channel) {
    const std::uint64_t part = part_of(what.count, channels, channel).count;
    const bool is_reduce = what.collective == Collective::kReduce;
    const RootTrees& from_root = *what.root_trees;
    const bool packed = what.count * kElementBytes >= from_root.packed_from_bytes;
    const std::vector<MeshTree>& trees = !is_reduce ? what.mesh->trees : packed ? from_root.packed : from_root.one;
    for (std::size_t which = 0; which < trees.size(); ++which) {
      const MeshTree& tree = trees[which];
      const int top = what.collective == Collective::kAllReduce ? tree.top : root;
      int leaves = 0;
      for (int rank = 0; rank < what.ranks; ++rank) {
        leaves += rank != top && tree.branches[static_cast<std::size_t>(rank)].size() == 1 ? 1 : 0;
      }
      bytes += part_of(part, trees.size(), which).count * bytes_up(what, leaves);
    }
  }
  return bytes;
}

// Each in the collective's test below.
void all_reduced_once(const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
  for (const RankModel& model : ranks) CHECK(all_equal(model.output, everybody(what.ranks)));
  CHECK(sent == bytes_up_meshes(what, 0) + edges(what) * what.count * kElementBytes);
}

void scattered_once(const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
  std::uint64_t up = 0;
  for (int rank = 0; rank < what.ranks; ++rank) {
    CHECK(all_equal(ranks[static_cast<std::size_t>(rank)].output, everybody(what.ranks)));
    up += bytes_up_meshes(what, rank);
  }
  CHECK(sent == up);
  if (what.partial_bytes == kElementBytes) {
    CHECK(sent == ranks.size() * edges(what) * what.count * kElementBytes);
  }
}

void spread_once(const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
  for (const RankModel& model : ranks) CHECK(all_equal(model.output, std::uint64_t{1} << what.root));
  CHECK(sent == edges(what) * what.count * kElementBytes);
}

void collected_once(const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
  for (int rank = 0; rank < what.ranks; ++rank) {
    const auto& output = ranks[static_cast<std::size_t>(rank)].output;
    CHECK(all_equal(output, rank == what.root ? everybody(what.ranks) : 0));
  }
  CHECK(sent == bytes_up_meshes(what, what.root));
}

}  // namespace

TEST_CASE("all_reduce by tree: for 1..33 ranks each element meets each rank exactly once, with 2(n-1) S bytes in all") {
  walk_space(Algorithm::kTree, Collective::kAllReduce, true,
             [](const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
               for (const RankModel& model : ranks) {
                 CHECK(all_equal(model.output, everybody(what.ranks)));
                 const std::uint64_t rounding = 4 * static_cast<std::uint64_t>(what.channels);
                 CHECK(model.sent_bytes <= (2 * what.count + rounding) * what.partial_bytes);
               }
               CHECK(sent == what.count * (bytes_up(what, what.ranks / 2) + edges(what) * kElementBytes));
             });
}

TEST_CASE("all_reduce by halving and doubling: each element meets each rank once, with 2(p-1) S + 2r S bytes in all") {
  walk_space(Algorithm::kHalvingDoubling, Collective::kAllReduce, true,
             [](const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
               for (const RankModel& model : ranks) CHECK(all_equal(model.output, everybody(what.ranks)));
               const auto n = static_cast<std::uint64_t>(what.ranks), power = std::bit_floor(n), folded = n - power;
               // Two of the first exchange's halves make one whole of each pair, whichever half is odd.
               if (what.partial_bytes == kElementBytes) {
                 CHECK(sent == what.count * kElementBytes * (2 * (power - 1) + 2 * folded));
               } else if (folded == 0 && what.count % power == 0) {
                 const std::uint64_t first = n / 2 * what.count, later = (power - 1) * what.count - first;
                 CHECK(sent == (n == 1 ? 0
                                       : first * kElementBytes + later * what.partial_bytes +
                                             (power - 1) * what.count * kElementBytes));
               }
             });
}

TEST_CASE(
    "all_reduce directly: for 1..33 ranks each element meets each rank exactly once, with 2(n-1) S bytes in all") {
  walk_space(Algorithm::kDirect, Collective::kAllReduce, true,
             [](const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
               for (const RankModel& model : ranks) CHECK(all_equal(model.output, everybody(what.ranks)));
               CHECK(sent == 2 * edges(what) * what.count * kElementBytes);
             });
}

TEST_CASE("reduce_scatter directly: for 1..33 ranks each element meets each rank once, with n(n-1) b bytes in all") {
  walk_space(Algorithm::kDirect, Collective::kReduceScatter, true,
             [](const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
               for (const RankModel& model : ranks) CHECK(all_equal(model.output, everybody(what.ranks)));
               CHECK(sent == ranks.size() * edges(what) * what.count * kElementBytes);
             });
}

TEST_CASE("all_gather directly: for 1..33 ranks each block reaches each rank, with n(n-1) b bytes in all") {
  walk_space(Algorithm::kDirect, Collective::kAllGather, false,
             [](const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
               for (const RankModel& model : ranks) {
                 for (std::uint64_t i = 0; i < model.output.size(); ++i) {
                   CHECK(model.output[i] == Element{.who = std::uint64_t{1} << (i / what.count)});
                 }
               }
               CHECK(sent == ranks.size() * edges(what) * what.count * kElementBytes);
             });
}

TEST_CASE("broadcast by tree: for 1..33 ranks the root's bytes reach each rank, once over each edge") {
  walk_space(Algorithm::kTree, Collective::kBroadcast, false,
             [](const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
               for (const RankModel& model : ranks) CHECK(all_equal(model.output, std::uint64_t{1} << what.root));
               CHECK(sent == edges(what) * what.count * kElementBytes);
             });
}

TEST_CASE("reduce by tree: for 1..33 ranks each element meets each rank once, at the root and nowhere else") {
  walk_space(Algorithm::kTree, Collective::kReduce, true,
             [](const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
               for (int rank = 0; rank < what.ranks; ++rank) {
                 const auto& output = ranks[static_cast<std::size_t>(rank)].output;
                 CHECK(all_equal(output, rank == what.root ? everybody(what.ranks) : 0));
               }
               CHECK(sent == what.count * bytes_up(what, (what.ranks + 1) / 2));
             });
}

TEST_CASE("all_reduce on meshes: each element meets each rank exactly once, over cables, with 2(n-1) S bytes in all") {
  walk_meshes(small_meshes(), Collective::kAllReduce, true, all_reduced_once);
}

TEST_CASE("all_gather on meshes: each block reaches each rank, over cables, with n(n-1) b bytes in all") {
  walk_meshes(small_meshes(), Collective::kAllGather, false, gathered_once);
}

TEST_CASE(
    "reduce_scatter on meshes: each element meets each rank exactly once, over cables, with n(n-1) b bytes in all") {
  walk_meshes(small_meshes(), Collective::kReduceScatter, true, scattered_once);
}

TEST_CASE("broadcast and reduce on meshes: to each rank once, and from each rank once, over cables") {
  for (const bool always_packed : {true, false}) {
    walk_meshes(small_meshes(), Collective::kBroadcast, false, spread_once, always_packed);
    walk_meshes(small_meshes(), Collective::kReduce, true, collected_once, always_packed);
  }
}

TEST_CASE("the same on meshes for 1..33 ranks: those of 10 and more") {
  const std::vector<Mesh> meshes = walk(large_meshes(), 6);
  walk_meshes(meshes, Collective::kAllReduce, true, all_reduced_once);
  walk_meshes(meshes, Collective::kAllGather, false, gathered_once);
  walk_meshes(meshes, Collective::kReduceScatter, true, scattered_once);
  walk_meshes(meshes, Collective::kBroadcast, false, spread_once);
  walk_meshes(meshes, Collective::kReduce, true, collected_once);
}

TEST_CASE("partial results that outgrow their memory go in rounds, each of which ends on its own") {
  const Mesh mesh = make_mesh(6, cables_of(6, {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 0}}));
  for (const Algorithm algorithm :
       {Algorithm::kTree, Algorithm::kHalvingDoubling, Algorithm::kDirect, Algorithm::kMesh}) {
    constexpr std::uint64_t kPartialBytes = 1 << 18;  // 16 of them fill it
    const Case what{algorithm, Collective::kAllReduce, 6, 45, 1, kPartialBytes, 1 << 20, 0, &mesh};
    const std::vector<RankModel> ranks = run_case(what);
    for (const RankModel& model : ranks) {
      CHECK(all_equal(model.output, everybody(what.ranks)));
      CHECK(model.schedule.round.begin == 32);
      CHECK(model.schedule.round.count == 13);
    }
  }
}

TEST_CASE("a mesh reduce_scatter's rounds hold a share of every rank's block") {
  const Mesh mesh = make_mesh(4, cables_of(4, {{0, 1}, {1, 2}, {2, 3}}));
  for (const std::uint64_t partial_bytes : {1U << 18U, 1U << 22U, 1U << 23U}) {
    const Case what{Algorithm::kMesh, Collective::kReduceScatter, 4, 9, 1, partial_bytes, 1 << 24, 0, &mesh};
    const std::vector<RankModel> ranks = run_case(what);
    const std::uint64_t most = partial_bytes == 1U << 18U ? 4 : 1;  // at least an element of each
    for (const RankModel& model : ranks) {
      CHECK(all_equal(model.output, everybody(what.ranks)));
      CHECK(model.schedule.round.begin == 8);
      CHECK(make_schedule(what.algorithm, model.schedule.request).round.count == most);
    }
  }
}

}  // namespace schedule_test

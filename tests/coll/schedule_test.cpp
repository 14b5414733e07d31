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
#include "plugin/coll/plan/earlier_receives.h"
#include "plugin/coll/plan/root_trees.h"
#include "plugin/coll/plan/torus_shape.h"
#include "tests/coll/contribution.h"
#include "tests/coll/mesh_graphs.h"
#include "tests/support/walk.h"

namespace schedule_test {

using namespace meshbed::coll;
using namespace meshbed::test;

namespace {

struct Message {
  std::vector<Element> data;
  std::uint64_t bytes = 0;
};
/// From, to, way.
using Wires = std::map<std::tuple<int, int, int>, std::deque<Message>>;

/// One rank's schedule interpreted as its header promises: a stream's slices in order, each as soon as it may.
struct RankModel {
  Schedule schedule;
  std::vector<Element> input, output, work;
  std::vector<std::uint64_t> reached;  // by transfer: sent or digested so far
  bool ended = false;
  std::uint64_t sent_bytes = 0, longest = 0;

  void begin_round() {
    reached.clear();
    for (const Transfer& transfer : schedule.transfers) reached.push_back(transfer.range.begin);
    work.assign(work_count(schedule), Element{});
  }
  bool done(std::size_t index) const { return reached[index] == end_of(schedule.transfers[index].range); }
  bool may(std::size_t index, const Range& slice) const {
    const Transfer& transfer = schedule.transfers[index];
    for (std::size_t before = 0; before < index; ++before) {
      const Transfer& other = schedule.transfers[before];
      const bool same_stream =
          other.peer == transfer.peer && other.way == transfer.way && other.receives == transfer.receives;
      if (same_stream && !done(before)) return false;
      const bool shares = slice.begin < end_of(other.range) && other.range.begin < end_of(slice);
      if (other.receives && shares && reached[before] < std::min(end_of(slice), end_of(other.range))) return false;
    }
    return true;
  }
  Element& at(BufferRole place, std::uint64_t index) {
    if (place == BufferRole::kInput) return input.at(index - schedule.input_begin);
    if (place == BufferRole::kOutput || schedule.works_in_output) return output.at(index - schedule.output_begin);
    return work.at(work_index(schedule, index));
  }

  bool move(std::size_t index, Wires& wires) {
    const Transfer& transfer = schedule.transfers[index];
    const Range slice{reached[index], std::min(schedule.slice_count, end_of(transfer.range) - reached[index])};
    if (slice.count == 0 || !may(index, slice)) return false;
    const int self = schedule.request.rank;
    auto& wire =
        transfer.receives ? wires[{transfer.peer, self, transfer.way}] : wires[{self, transfer.peer, transfer.way}];
    const std::uint64_t bytes = slice.count * wire_bytes_of(schedule.request, transfer);
    if (!transfer.receives) {
      if (!wire.empty()) return false;  // nothing buffers between two ranks
      Message message{.data = {}, .bytes = bytes};
      for (std::uint64_t i = slice.begin; i < end_of(slice); ++i) message.data.push_back(at(transfer.place, i));
      wire.push_back(std::move(message));
      CHECK(bytes <= std::max(schedule.request.slice_bytes_max, wire_bytes_of(schedule.request, transfer)));
      sent_bytes += bytes;
    } else {
      if (wire.empty()) return false;
      Message message = std::move(wire.front());
      wire.pop_front();
      REQUIRE(message.data.size() == slice.count);
      REQUIRE(message.bytes == bytes);
      for (std::uint64_t i = 0; i < slice.count; ++i) store(transfer, slice.begin + i, message.data[i]);
    }
    reached[index] += slice.count;
    return true;
  }

  void store(const Transfer& transfer, std::uint64_t index, Element arrived) {
    if (transfer.reduces) {
      CHECK(transfer.partial == (std::popcount(arrived.who) > 1));
      const Element& own = at(transfer.own, index);
      CHECK((transfer.own == BufferRole::kWork) == (std::popcount(own.who) > 1));
      arrived = together(arrived, own);
      CHECK((transfer.place == BufferRole::kOutput) == (std::popcount(arrived.who) == schedule.request.ranks));
    }
    at(transfer.place, index) = arrived;
  }

  bool pass(Wires& wires) {
    bool moved = false;
    for (std::size_t index = 0; index < schedule.transfers.size(); ++index) moved |= move(index, wires);
    for (std::size_t index = 0; index < schedule.transfers.size(); ++index) {
      if (!done(index)) return moved;
    }
    if (ended) return moved;
    ended = !next_round(schedule);
    if (!ended) begin_round();
    return true;
  }
};

struct Case {
  Algorithm algorithm;
  Collective collective;
  int ranks;
  std::uint64_t count;
  int channels;
  std::uint64_t partial_bytes = kElementBytes;
  std::uint64_t slice_bytes = 5 * kElementBytes;
  int root = 0;
  const Mesh* mesh = nullptr;
  const RootTrees* root_trees = nullptr;
  const TorusShape* torus = nullptr;
};

/// All channels on all ranks.
std::vector<RankModel> run_case(const Case& what) {
  std::vector<RankModel> ranks(static_cast<std::size_t>(what.ranks));
  for (int rank = 0; rank < what.ranks; ++rank) {
    const std::uint64_t all = what.count * static_cast<std::uint64_t>(what.ranks);
    const bool blocks_in = what.collective == Collective::kReduceScatter;
    const bool blocks_out = what.collective == Collective::kAllGather;
    RankModel& model = ranks[static_cast<std::size_t>(rank)];
    model.input.assign(blocks_in ? all : what.count, Element{.who = std::uint64_t{1} << rank});
    model.output.assign(blocks_out ? all : what.count, Element{});
  }
  for (int channel = 0; channel < what.channels; ++channel) {
    Wires wires;
    for (int rank = 0; rank < what.ranks; ++rank) {
      RankModel& model = ranks[static_cast<std::size_t>(rank)];
      PlanRequest request{.collective = what.collective, .rank = rank, .ranks = what.ranks, .root = what.root};
      request.count = what.count;
      request.element_bytes = kElementBytes;
      request.partial_bytes = what.partial_bytes;
      request.channel = channel;
      request.channels = what.channels;
      request.slice_bytes_max = what.slice_bytes;
      request.mesh = what.mesh;
      request.root_trees = what.root_trees;
      request.torus = what.torus;
      model.schedule = make_schedule(what.algorithm, request);
      const LocalCopy& copy = model.schedule.copy;
      for (std::uint64_t i = 0; i < copy.count; ++i) {
        model.output.at(copy.output_offset + i) = model.input.at(copy.input_offset + i);
      }
      model.ended = false;
      model.begin_round();
    }
    // One rank moves first whenever it can, so that different orders are met.
    RankModel& eager = ranks[static_cast<std::size_t>(channel % what.ranks)];
    for (bool moved = true; moved;) {
      moved = false;
      while (eager.pass(wires)) moved = true;
      for (RankModel& model : ranks) moved |= model.pass(wires);
    }
    for (const RankModel& model : ranks) CHECK_MESSAGE(model.ended, "rank ", model.schedule.request.rank, " is stuck");
    for (const auto& [ends, wire] : wires) CHECK(wire.empty());
  }
  return ranks;
}

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

bool all_equal(const std::vector<Element>& values, std::uint64_t who) {
  return std::all_of(values.begin(), values.end(), [&](const Element& value) { return value == Element{.who = who}; });
}
std::uint64_t everybody(int ranks) { return (std::uint64_t{1} << ranks) - 1; }

/// Bytes up a tree of n ranks with so many leaves, for each element: leaves send elements, branches partial results.
std::uint64_t bytes_up(const Case& what, int leaves) {
  if (what.ranks == 1) return 0;
  return static_cast<std::uint64_t>(leaves) * kElementBytes +
         static_cast<std::uint64_t>(what.ranks - 1 - leaves) * what.partial_bytes;
}
std::uint64_t edges(const Case& what) { return static_cast<std::uint64_t>(what.ranks - 1); }

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

void gathered_once(const Case& what, const std::vector<RankModel>& ranks, std::uint64_t sent) {
  for (const RankModel& model : ranks) {
    for (std::uint64_t i = 0; i < model.output.size(); ++i) {
      CHECK(model.output[i] == Element{.who = std::uint64_t{1} << (i / what.count)});
    }
  }
  CHECK(sent == ranks.size() * edges(what) * what.count * kElementBytes);
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

TEST_CASE("torus: each contribution once, 2(n-1) S bytes or n(n-1) b, on cables' shapes and on any other") {
  const std::vector<std::vector<int>> shapes{{3},    {2, 2},    {2, 3},    {3, 2},       {4, 4}, {2, 8},
                                             {5, 2}, {2, 2, 2}, {3, 2, 4}, {2, 3, 2, 2}, {7, 4}, {33}};
  for (const std::vector<int>& lengths : shapes) {
    int ranks = 1;
    for (const int length : lengths) ranks *= length;
    for (const bool by_cables : {false, true}) {
      if (!by_cables && lengths.size() < 2) continue;
      std::vector<std::pair<int, int>> pairs;
      int stride = 1;
      for (const int length : lengths) {
        for (int rank = 0; rank < ranks && by_cables; ++rank) {
          const int place = rank / stride % length, next = rank + ((place + 1) % length - place) * stride;
          if (length > 2 || place == 0) pairs.emplace_back(rank, next);
        }
        stride *= length;
      }
      const Mesh mesh = make_mesh(ranks, cables_of(ranks, pairs));
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

TEST_CASE("the receives that a transfer shares elements with are those that all of them would be looked through for") {
  meshbed::Prng prng(5);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Transfer> transfers(static_cast<std::size_t>(prng.below(40)));
    for (Transfer& each : transfers) {
      each.receives = prng.below(2) == 0;
      each.range = {prng.below(50), prng.below(round % 2 == 0 ? 5 : 40)};
    }
    EarlierReceives earlier;
    earlier.find(transfers);
    for (std::size_t index = 0; index < transfers.size(); ++index) {
      std::vector<std::uint32_t> wanted, found(earlier.of(index).begin(), earlier.of(index).end());
      const Range& own = transfers[index].range;
      for (std::uint32_t other = 0; other < index; ++other) {
        const Range& range = transfers[other].range;
        if (!transfers[other].receives || range.count == 0) continue;
        if (range.begin < end_of(own) && own.begin < end_of(range)) wanted.push_back(other);
      }
      std::sort(found.begin(), found.end());
      CHECK(found == wanted);
    }
  }
}

}  // namespace schedule_test

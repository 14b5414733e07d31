// Ranks come to their tuner up to a minute apart, as NCCL's did in slow machines, and one may die: every rank that is
// left makes the same choice, and none is failed.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>

#include "plugin/base/prng.h"
#include "plugin/nccl/tuner_abi.h"
#include "sim/engine/world.h"
#include "sim/fault/inject.h"
#include "tests/net/mesh_ranks.h"
#include "tests/support/walk.h"

namespace tuner_late_test {

using namespace meshbed;
using namespace meshbed::nccl;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

constexpr int kNodes = 4;
constexpr int kNoRank = -1;
constexpr std::uint64_t kCommunicator = 0xc0ffee;

/// As NCCL opens the net before its ranks meet: from then on the process knows that it is in the communicator.
void* join(MeshRank& rank) {
  void* context = nullptr;
  CHECK(rank.net().init(&context, kCommunicator, nullptr, &keep_line, nullptr) == kNcclSuccess);
  return context;
}

/// When a rank comes, and which one dies when.
struct Story {
  std::array<int, kNodes> arrival_ms{};
  int dead = kNoRank;
  int death_ms = 0;
};

/// What became of a rank; all of them run in one process.
struct Ending {
  int result = -1;
  bool drops_tree = false;
  double seconds = 0;  // that init took
  std::string warnings;
};

using Endings = std::array<Ending, kNodes>;

Ending tune(MeshRank& rank, std::size_t ranks = kNodes) {
  const auto* tuner = rank.table<TunerV6>("ncclTunerPlugin_v6");
  NvlDomainInfoV5 domains{};
  Ending ending;
  void* context = nullptr;
  const Picoseconds begun = sim::World::get().now();
  ending.result = tuner->init(&context, kCommunicator, ranks, ranks, &keep_line, &domains, nullptr);
  ending.seconds = static_cast<double>(sim::World::get().now() - begun) / 1e12;
  if (ending.result != kNcclSuccess) return ending;
  std::array<std::array<float, kProtocols>, kAlgorithms> table{};
  for (auto& row : table) row.fill(kCostIgnore);
  table[kAlgoTree] = {30, 25, 40};
  table[kAlgoRing] = {90, 70, 100};
  int channels = 0;
  CHECK(tuner->getCollInfo(context, kAllReduce, 1 << 20, 1, reinterpret_cast<float**>(table.data()), kAlgorithms,
                           kProtocols, 0, &channels) == kNcclSuccess);
  ending.drops_tree = table[kAlgoTree][0] == kCostIgnore;
  CHECK(tuner->finalize(context) == kNcclSuccess);
  ending.warnings = rank.warnings();
  return ending;
}

void sleep_ms(int milliseconds) { sim::World::get().sleep(milliseconds * kPicosecondsPerMillisecond); }

/// Checks within, since the ranks' memory is not ours afterwards.
void tell(const Story& story, const std::function<void(const Endings&)>& check) {
  Endings endings;
  const auto result = run_mesh(ring_cluster(kNodes), [&](MeshRank& rank) {
    sim::World& world = sim::World::get();
    if (rank.rank() == 0 && story.dead != kNoRank) {
      world.after(
          story.death_ms * kPicosecondsPerMillisecond, 0,
          [](void* self, std::uint64_t node) {
            sim::kill_node(*static_cast<sim::World*>(self), static_cast<int>(node));
          },
          &world, static_cast<std::uint64_t>(story.dead));
    }
    void* context = join(rank);
    const auto number = static_cast<std::size_t>(rank.rank());
    sleep_ms(story.arrival_ms[number]);
    endings[number] = tune(rank);
    if (rank.rank() == story.dead) {
      sleep_ms(200'000);
      return;
    }
    rank.meet("end", story.dead == kNoRank ? kNodes : kNodes - 1);
    if (rank.rank() == (story.dead == 0 ? 1 : 0)) check(endings);
    CHECK(rank.net().finalize(context) == kNcclSuccess);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

}  // namespace

TEST_CASE("ranks that come 60 s apart, in any order, all drop Tree: coming ranks are waited for, without a warning") {
  const std::array<int, kNodes> gaps_ms{0, 9700, 31'000, 60'000};
  std::array<std::size_t, kNodes> order{0, 1, 2, 3};
  int story_number = 0;
  do {
    // One in six of the 24 orders, and all in walks.
    if (!walks_whole() && story_number++ % 6 != 0) continue;
    Story story;
    for (std::size_t place = 0; place < kNodes; ++place) story.arrival_ms[order[place]] = gaps_ms[place];
    tell(story, [&](const Endings& endings) {
      for (std::size_t rank = 0; rank < kNodes; ++rank) {
        CAPTURE(rank);
        CHECK(endings[rank].result == kNcclSuccess);
        CHECK(endings[rank].drops_tree);
        CHECK(endings[rank].seconds < (60'000 - story.arrival_ms[rank]) * 1e-3 + 0.2);
        CHECK_MESSAGE(endings[rank].warnings.empty(), endings[rank].warnings);
      }
    });
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("one of four dies, at whatever moment: the others make one choice, and none is failed") {
  const int stories = walks_whole() ? 200 : 10;
  for (int number = 0; number < stories; ++number) {
    CAPTURE(number);
    Prng random(static_cast<std::uint64_t>(number));
    Story story;
    const std::uint64_t spread_ms = number % 3 == 0 ? 5 : 60'000;
    for (int& arrival : story.arrival_ms) arrival = 1 + static_cast<int>(random.below(spread_ms));
    story.dead = static_cast<int>(random.below(kNodes));
    story.death_ms = 1 + static_cast<int>(random.below(spread_ms + spread_ms / 4));
    tell(story, [&](const Endings& endings) {
      int dropping = 0;
      for (int rank = 0; rank < kNodes; ++rank) {
        const Ending& ending = endings[static_cast<std::size_t>(rank)];
        if (rank == story.dead) continue;
        CAPTURE(rank);
        CHECK_MESSAGE(ending.result == kNcclSuccess, ending.warnings);
        dropping += ending.drops_tree ? 1 : 0;
        CHECK(ending.seconds < 60 + 10 + 40 + 1);
      }
      CHECK((dropping == 0 || dropping == kNodes - 1));
    });
  }
}

TEST_CASE("a dead node is not waited for because others, of no rank of the communicator, hear of it and live") {
  const auto result = run_mesh(ring_cluster(kNodes), [](MeshRank& rank) {
    rank.meet("start", kNodes);
    if (rank.rank() == 0) {
      const auto dies = [](void*, std::uint64_t node) { sim::kill_node(sim::World::get(), static_cast<int>(node)); };
      sim::World::get().after(0, 0, dies, nullptr, 1);
      sleep_ms(1);
      void* context = join(rank);
      const Ending ending = tune(rank, 2);
      CHECK(ending.result == kNcclSuccess);
      CHECK(ending.seconds == doctest::Approx(5).epsilon(0.02));
      CHECK(rank.warnings().find("only 1 of 2 ranks, on 1 of 2 nodes, are there") != std::string::npos);
      CHECK(rank.net().finalize(context) == kNcclSuccess);
    }
    if (rank.rank() == 1) {
      sleep_ms(200'000);
      return;
    }
    rank.meet("end", kNodes - 1);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("nor is a rank whose NCCL has another tuner or none, while one with ours, by whatever name, is waited for") {
  for (const auto& [name, ours] : {std::pair{"libnccl-tuner-other.so", false},
                                   {"None", false},
                                   {"/opt/nccl/libnccl-net-mesh.so", true},
                                   {"mesh", true}}) {
    CAPTURE(name);
    models::Cluster cluster = with(ring_cluster(2), "NCCL_MESH_TUNER_TIMEOUT_MS", "8000");
    cluster.nodes[1].environment.emplace_back("NCCL_TUNER_PLUGIN", name);
    const auto result = run_mesh(cluster, [ours = ours](MeshRank& rank) {
      void* context = join(rank);
      if (rank.rank() == 0) CHECK(tune(rank, 2).seconds == doctest::Approx(ours ? 8 : 5).epsilon(0.02));
      rank.meet("end", 2);
      CHECK(rank.net().finalize(context) == kNcclSuccess);
    });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

}  // namespace tuner_late_test

// The tuner of the real plugin file at every rank of a simulated cluster: all ranks change their tables alike, drop
// Tree exactly where it would relay, and none of them does where one could not.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <utility>

#include "plugin/nccl/tuner_abi.h"
#include "sim/engine/network.h"
#include "sim/engine/world.h"
#include "tests/net/mesh_ranks.h"

namespace tuner_test {

using namespace meshbed;
using namespace meshbed::nccl;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

using Table = std::array<std::array<float, kProtocols>, kAlgorithms>;

/// As NCCL hands it over for an all-reduce: what it cannot do is ignored.
Table nccl_table() {
  Table table{};
  for (auto& row : table) row.fill(kCostIgnore);
  table[kAlgoTree] = {30, 25, 40};
  table[kAlgoRing] = {90, 70, 100};
  table[kAlgoPat] = {60, 50, 55};
  return table;
}

constexpr std::uint64_t kCommunicator = 0xc0ffee;

struct Answer {
  int result = -1;
  Table table = nccl_table();
  double seconds = 0;  // that init took
};

/// init, one table, finalize, as NCCL calls them.
Answer tune(MeshRank& rank, std::size_t ranks, std::size_t nodes, std::uint64_t communicator = kCommunicator) {
  const auto* tuner = rank.table<TunerV5>("ncclTunerPlugin_v5");
  CHECK(std::string(tuner->name) == "Mesh");
  NvlDomainInfoV5 domains{};
  Answer answer;
  void* context = nullptr;
  const Picoseconds begun = sim::World::get().now();
  answer.result = tuner->init(&context, communicator, ranks, nodes, &keep_line, &domains, nullptr);
  answer.seconds = static_cast<double>(sim::World::get().now() - begun) / 1e12;
  if (answer.result != kNcclSuccess) {
    CHECK(context == nullptr);
    return answer;
  }
  int channels = 0;
  CHECK(tuner->getCollInfo(context, kAllReduce, 1 << 20, 1, reinterpret_cast<float**>(answer.table.data()), kAlgorithms,
                           kProtocols, 0, &channels) == kNcclSuccess);
  CHECK(channels == 0);
  CHECK(tuner->finalize(context) == kNcclSuccess);
  return answer;
}

bool is_dropped(const Table& table, int algorithm) {
  return std::all_of(table[algorithm].begin(), table[algorithm].end(), [](float cost) { return cost == kCostIgnore; });
}

void pause_ms(int milliseconds) { sim::World::get().sleep(Picoseconds{milliseconds} * 1'000'000'000); }

/// Every rank tunes, after body(rank), and all stay until the last one has.
WorldResult run_tuners(const models::Cluster& cluster, const std::function<void(MeshRank&)>& before,
                       const std::function<void(MeshRank&, const Answer&)>& after) {
  const std::size_t nodes = cluster.nodes.size();
  return run_mesh(cluster, [=](MeshRank& rank) {
    before(rank);
    const Answer answer = tune(rank, nodes, nodes);
    CHECK(answer.result == kNcclSuccess);
    after(rank, answer);
    rank.meet("end", static_cast<int>(nodes));
  });
}

void nothing_before(MeshRank&) {}

}  // namespace

TEST_CASE("rings of four and eight: every rank drops Tree and PAT, in milliseconds and without a warning") {
  for (const int nodes : {4, 8}) {
    const auto result = run_tuners(ring_cluster(nodes), nothing_before, [nodes](MeshRank& rank, const Answer& answer) {
      CHECK(is_dropped(answer.table, kAlgoTree));
      CHECK(is_dropped(answer.table, kAlgoPat));
      CHECK(answer.table[kAlgoRing] == nccl_table()[kAlgoRing]);
      CHECK(answer.seconds < 0.1);
      CHECK(rank.warnings().empty());
      const std::string& infos = rank.infos();
      CHECK(infos.find("tuner: " + std::to_string(nodes) + " of ") != std::string::npos);
      CHECK(infos.find("Tree, NVLSTree, PAT would relay: not taken") != std::string::npos);
      CHECK(infos.find("ring 192.168.100.1 - 192.168.100.2 - 192.168.101.2 - ") != std::string::npos);
    });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("a triangle, a pair and a switch of six: nothing relays, every table stays as it is") {
  for (const auto& cluster : {ring_cluster(3), ring_cluster(2), switch_cluster(6)}) {
    const auto result = run_tuners(cluster, nothing_before, [](MeshRank& rank, const Answer& answer) {
      CHECK(answer.table == nccl_table());
      CHECK(rank.warnings().empty());
      CHECK(rank.infos().find("a cable between each two: algorithms are NCCL's choice") != std::string::npos);
    });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("a line of four: a ring relays too, so nothing is dropped, and all ranks have the same prices") {
  Table first{};  // of whichever rank comes first; they all run in one process
  bool any = false;
  const auto result = run_tuners(line_cluster(4), nothing_before, [&](MeshRank& rank, const Answer& answer) {
    if (!std::exchange(any, true)) first = answer.table;
    CHECK(answer.table == first);
    // tuner_price_test works the factors out: twice the load for Tree, twice two extra cables for a ring.
    CHECK(answer.table[kAlgoTree][1] > 2 * 25);
    CHECK(answer.table[kAlgoTree][1] < 2 * 25 + 100);
    CHECK(answer.table[kAlgoRing][1] > 70 + 4 * 33);
    CHECK(answer.table[kAlgoRing][1] < 70 + 4 * 40);
    CHECK(answer.table[kAlgoNvls][0] == kCostIgnore);
    CHECK(rank.warnings().empty());
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("one rank a second late: the others wait for it, and all drop Tree") {
  for (int late = 0; late < 4; ++late) {
    const auto result = run_tuners(
        ring_cluster(4), [late](MeshRank& rank) { pause_ms(rank.rank() == late ? 1000 : 0); },
        [late](MeshRank& rank, const Answer& answer) {
          CHECK(is_dropped(answer.table, kAlgoTree));
          CHECK(answer.seconds < (rank.rank() == late ? 0.1 : 1.1));
          CHECK(rank.warnings().empty());
        });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("one rank too late: no rank drops anything; it learns of it at once and waits for none; one warning each") {
  const auto result = run_tuners(
      with(ring_cluster(4), "NCCL_MESH_TUNER_TIMEOUT_MS", "2000"),
      [](MeshRank& rank) { pause_ms(rank.rank() == 2 ? 3000 : 0); },
      [](MeshRank& rank, const Answer& answer) {
        CHECK(answer.table == nccl_table());
        const std::string& warnings = rank.warnings();
        CHECK(std::count(warnings.begin(), warnings.end(), '\n') == 1);
        CHECK(warnings.find("all ranks leave the choice of algorithms to NCCL") != std::string::npos);
        if (rank.rank() == 2) {
          CHECK(answer.seconds < 0.1);
          CHECK(warnings.find("declined") != std::string::npos);
        } else {
          CHECK(answer.seconds == doctest::Approx(2).epsilon(0.02));
        }
      });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("one node without a tuner: the others stop at their deadline, say who is missing, and change nothing") {
  const auto result = run_mesh(with(ring_cluster(4), "NCCL_MESH_TUNER_TIMEOUT_MS", "300"), [](MeshRank& rank) {
    if (rank.rank() != 3) {
      const Answer answer = tune(rank, 4, 4);
      CHECK(answer.result == kNcclSuccess);
      CHECK(answer.table == nccl_table());
      CHECK(answer.seconds == doctest::Approx(0.3).epsilon(0.02));
      CHECK(rank.warnings().find("only 3 of 4 ranks, on 3 of 4 nodes, are there") != std::string::npos);
      CHECK(rank.warnings().find("NCCL_MESH_TUNER_TIMEOUT_MS=300") != std::string::npos);
    }
    rank.meet("end", 4);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("a cable that is down when the communicator is made: the ring of four is a line for every rank") {
  models::Cluster cluster = ring_cluster(4);
  const auto result = run_mesh(cluster, [](MeshRank& rank) {
    if (rank.rank() == 0) sim::World::get().network().set_port_up({0, 0}, false);
    pause_ms(10);
    const Answer answer = tune(rank, 4, 4);
    CHECK_FALSE(is_dropped(answer.table, kAlgoTree));
    CHECK(answer.table[kAlgoRing][2] > 100 + 4 * 33);
    CHECK(rank.infos().find("every algorithm relays") != std::string::npos);
    rank.meet("end", 4);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("sub-communicators at once, each with its own answer: neighbours, opposite nodes, and all nodes") {
  const auto result = run_mesh(ring_cluster(4), [](MeshRank& rank) {
    const int number = rank.rank();
    Answer answer = tune(rank, 2, 2, 100 + static_cast<std::uint64_t>(number / 2));  // {0, 1}, {2, 3}
    CHECK(answer.table == nccl_table());
    answer = tune(rank, 2, 2, 200 + static_cast<std::uint64_t>(number % 2));  // {0, 2}, {1, 3}
    CHECK(answer.table == nccl_table());
    CHECK(rank.infos().find("joined only through nodes outside this communicator") != std::string::npos);
    answer = tune(rank, 4, 4, 300);
    CHECK(is_dropped(answer.table, kAlgoTree));
    CHECK(rank.warnings().empty());
    rank.meet("end", 4);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE(
    "one node, more nodes than a mesh has, a tuner that is off, relays that are off, and no net: no word is sent") {
  for (const auto& [nodes, variable] : {std::pair<std::size_t, const char*>{1, "NCCL_MESH_SEED"},
                                        {17, "NCCL_MESH_SEED"},
                                        {4, "NCCL_MESH_TUNER_TIMEOUT_MS"},
                                        {4, "NCCL_MESH_ENABLE_RELAY"}}) {
    const auto result = run_mesh(with(ring_cluster(4), variable, "0"), [nodes = nodes](MeshRank& rank) {
      const Answer answer = tune(rank, nodes, nodes);
      CHECK(answer.result == kNcclSuccess);
      CHECK(answer.table == nccl_table());
      CHECK(answer.seconds == 0);
      CHECK(rank.warnings().empty());
    });
    CHECK(result.outcome == OutcomeKind::kFinished);
  }
  const auto result = run_mesh(
      ring_cluster(4), [](MeshRank& rank) { CHECK(tune(rank, 4, 4).table == nccl_table()); }, /*bare=*/true);
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("bad arguments are refused, not followed") {
  const auto result = run_mesh(ring_cluster(2), [](MeshRank& rank) {
    const auto* tuner = rank.table<TunerV5>("ncclTunerPlugin_v5");
    CHECK(tuner->init(nullptr, 1, 1, 1, &keep_line, nullptr, nullptr) == kNcclInvalidArgument);
    Table table = nccl_table();
    int channels = 0;
    auto** costs = reinterpret_cast<float**>(table.data());
    CHECK(tuner->getCollInfo(nullptr, kAllReduce, 8, 1, costs, 7, 3, 0, &channels) == kNcclInvalidArgument);
    CHECK(tuner->getCollInfo(rank.context, kAllReduce, 8, 1, costs, 7, 3, 0, &channels) == kNcclInvalidArgument);
    CHECK(tuner->finalize(rank.context) == kNcclInvalidArgument);
    CHECK(table == nccl_table());
    void* context = nullptr;
    CHECK(tuner->init(&context, 1, 1, 1, &keep_line, nullptr, nullptr) == kNcclSuccess);
    CHECK(tuner->getCollInfo(context, kAllReduce, 8, 1, nullptr, 7, 3, 0, &channels) == kNcclInvalidArgument);
    CHECK(tuner->finalize(context) == kNcclSuccess);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("version 6 makes the same choice, and leaves every chunk as NCCL cuts it") {
  const auto result = run_mesh(ring_cluster(4), [](MeshRank& rank) {
    const auto* tuner = rank.table<TunerV6>("ncclTunerPlugin_v6");
    const auto* older = rank.table<TunerV5>("ncclTunerPlugin_v5");
    CHECK((tuner->init == older->init));
    CHECK((tuner->getCollInfo == older->getCollInfo));
    CHECK((tuner->finalize == older->finalize));
    CHECK(std::string(tuner->name) == older->name);
    void* context = nullptr;
    CHECK(tuner->init(&context, kCommunicator, 4, 4, &keep_line, nullptr, nullptr) == kNcclSuccess);
    Table table = nccl_table();
    int channels = 0;
    CHECK(tuner->getCollInfo(context, kAllReduce, 1 << 20, 1, reinterpret_cast<float**>(table.data()), kAlgorithms,
                             kProtocols, 0, &channels) == kNcclSuccess);
    CHECK(is_dropped(table, kAlgoTree));
    for (int algorithm = 0; algorithm < kAlgorithms; ++algorithm) {
      for (int protocol = 0; protocol < kProtocols; ++protocol) {
        for (const std::size_t chunk : {std::size_t{0}, std::size_t{65'536}, std::size_t{4} << 20U}) {
          std::size_t left = chunk;
          CHECK(tuner->getChunkSize(context, kAllReduce, 1 << 20, algorithm, protocol, 2, &left) == kNcclSuccess);
          CHECK(left == chunk);
        }
      }
    }
    CHECK(rank.warnings().empty());

    std::size_t chunk = 65'536;
    CHECK(tuner->getChunkSize(nullptr, kAllReduce, 8, kAlgoRing, 2, 1, &chunk) == kNcclInvalidArgument);
    CHECK(tuner->getChunkSize(rank.context, kAllReduce, 8, kAlgoRing, 2, 1, &chunk) == kNcclInvalidArgument);
    CHECK(tuner->getChunkSize(context, kAllReduce, 8, kAlgoRing, 2, 1, nullptr) == kNcclInvalidArgument);
    CHECK(chunk == 65'536);
    CHECK(rank.warnings().find("tuner getChunkSize: bad arguments") != std::string::npos);
    CHECK(tuner->finalize(context) == kNcclSuccess);
    rank.meet("end", 4);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

namespace {

/// 300 us after the first rank announcements: all have received them, and none has looked yet.
void pull_between_hearing_and_yes(MeshRank& rank, int back_after_ms) {
  if (rank.rank() != 0) return;
  sim::World& world = sim::World::get();
  sim::Network& network = world.network();
  world.after(
      300 * kPicosecondsPerMicrosecond, 0,
      [](void* self, std::uint64_t) {
        static_cast<sim::Network*>(self)->set_port_up({0, 0}, false);
      },
      &network, 0);
  if (back_after_ms == 0) return;
  world.after(
      Picoseconds{back_after_ms} * 1'000'000'000, 0,
      [](void* self, std::uint64_t) {
        static_cast<sim::Network*>(self)->set_port_up({0, 0}, true);
      },
      &network, 0);
}

}  // namespace

TEST_CASE(
    "a cable that goes after all have been heard, for good: both do without once no connection can be left, and none "
    "fails") {
  const auto result = run_mesh(ring_cluster(2), [](MeshRank& rank) {
    rank.meet("begin", 2);
    pull_between_hearing_and_yes(rank, 0);
    const Answer answer = tune(rank, 2, 2);
    CHECK(answer.result == kNcclSuccess);
    // The word, 10 s; the doubt, 10 s longer than NCCL_MESH_FAILOVER_TIMEOUT_SEC.
    CHECK(answer.seconds == doctest::Approx(10 + 40).epsilon(0.01));
    CHECK(rank.warnings().find("no vote came from 192.168.100.") != std::string::npos);
    CHECK(rank.warnings().find("all ranks leave the choice of algorithms to NCCL") != std::string::npos);
    rank.meet("end", 2);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("a cable that goes then and comes back: the others' word is heard after all") {
  const auto result = run_mesh(ring_cluster(2), [](MeshRank& rank) {
    rank.meet("begin", 2);
    pull_between_hearing_and_yes(rank, 5000);
    const Answer answer = tune(rank, 2, 2);
    CHECK(answer.result == kNcclSuccess);
    CHECK(answer.seconds > 4.9);
    CHECK(answer.seconds < 6);
    CHECK(rank.infos().find("a cable between each two") != std::string::npos);
    rank.meet("end", 2);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("two processes on each of four nodes, two ranks in each: sixteen ranks agree") {
  Shared shared;
  g_shared = &shared;
  int tuned = 0;
  const auto cluster = ring_cluster(4);
  const auto result = run_world({.cluster = cluster}, [&](sim::World& world) {
    sim::install_host(world, {});
    sim::install_verbs(world, std::string(MESHBED_BINARY_DIR) + "/sim-lib/libibverbs.so.1", nullptr);
    for (int number = 0; number < 8; ++number) {
      auto& process = world.add_process(number, number / 2, "process" + std::to_string(number));
      world.spawn(process, "main", [&shared, &tuned, &process, number] {
        MeshRank self(shared, number);
        self.start();
        const auto one = [&] {
          const Answer answer = tune(self, 16, 4);
          CHECK(answer.result == kNcclSuccess);
          CHECK(is_dropped(answer.table, kAlgoTree));
          CHECK(answer.seconds < 0.2);
          ++tuned;
        };
        sim::World::get().spawn(process, "second", one);
        one();
        MeshRank::wait_until([&] { return tuned == 16; });
        CHECK(self.warnings().empty());
        self.stop();
      });
    }
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

}  // namespace tuner_test

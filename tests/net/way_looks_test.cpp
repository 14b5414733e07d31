// The looks by which connections weigh their two ways (way_watch.h), where each node has several processes: what the
// other ones load counts, and what a look costs them all is bounded.
#include "tests/net/drivers.h"
#include "tests/net/two_ways.h"

namespace way_looks_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

struct Pair {
  int sender = 0, receiver = 0;
  Flow::Options options;
  bool leaves = false;  // both of them, when they are done, with their processes
};

/// `ranks_a_node` on a balanced ring of four: rank r is on node r % 4. All flows begin at one moment; rank 0 is told
/// when that is, and when its own is done.
struct Crowd {
  int ranks_a_node = 1;
  std::vector<Pair> pairs;
  std::function<void()> begun{};
  std::function<void(MeshRank&)> done{};

  int ranks() const { return kRanks * ranks_a_node; }
  void body(MeshRank& rank) const {
    std::unique_ptr<Flow> flow;
    Comms comms;
    bool leaves = false;
    int stay = ranks();
    for (const Pair& pair : pairs) {
      stay -= pair.leaves ? 2 : 0;
      const bool sends = rank.rank() == pair.sender;
      if (!sends && rank.rank() != pair.receiver) continue;
      leaves = pair.leaves;
      comms = rank.connect_both(sends ? pair.receiver : pair.sender, 0);
      flow = std::make_unique<Flow>(rank, sends ? comms.send : comms.receive, sends, pair.options);
    }
    rank.meet("connected", ranks());
    if (rank.rank() == 0 && begun) begun();
    while (flow != nullptr && !flow->done()) flow->step();
    flow.reset();
    if (rank.rank() == 0) done(rank);
    if (!leaves) rank.meet("streamed", stay);
    if (comms.send != nullptr) rank.close(comms);
    if (!leaves) rank.meet("end", stay);
  }
  WorldResult run() const {
    Shared shared;
    g_shared = &shared;
    const models::Cluster ring = balanced_ring();
    return run_world({.cluster = ring}, [&](sim::World& world) {
      sim::install_host(world, {});
      sim::install_verbs(world, MESHBED_BINARY_DIR "/sim-lib/libibverbs.so.1", nullptr);
      for (int number = 0; number < ranks(); ++number) {
        auto& process = world.add_process(number, number % kRanks, "rank" + std::to_string(number));
        for (const auto& [name, value] : ring.nodes.front().environment) process.environment[name] = value;
        world.spawn(process, "main", [this, &shared, number] {
          MeshRank self(shared, number);
          self.start();
          body(self);
          self.stop();
        });
      }
    });
  }
};

std::uint64_t g_port_queries = 0;

}  // namespace

TEST_CASE("two ways: what another process of the node has in flight over its port is a reason to change") {
  const Crowd crowd{.ranks_a_node = 2,
                    .pairs = {{0, 2, {.messages = 1000, .at_once = 4, .bytes = kMiB}},
                              {4, 5, {.messages = 1500, .at_once = 4, .bytes = kMiB}}},
                    .done = [](MeshRank& rank) {
                      const Json send = connection_of(state_of(rank), "send");
                      CHECK(changes_of(send) == 1);
                      CHECK(text_of(send, "way") == kByNode3);
                    }};
  CHECK(crowd.run().outcome == OutcomeKind::kFinished);
}

TEST_CASE("two ways: what a process had in flight when it ended is soon no reason to change any more") {
  const Crowd crowd{.ranks_a_node = 2,
                    .pairs = {{0, 2, {.messages = 1400, .at_once = 4, .bytes = kMiB}},
                              {1, 6, {.messages = 100, .at_once = 4, .bytes = kMiB}, true}},
                    .done = [](MeshRank& rank) {
                      const Json send = connection_of(state_of(rank), "send");
                      CHECK(changes_of(send) == 0);
                      CHECK(text_of(send, "way") == kByNode1);
                    }};
  CHECK(crowd.run().outcome == OutcomeKind::kFinished);
}

TEST_CASE("two ways: four processes a node look: what their looks cost is bounded by the time, not by the looks") {
  static constexpr int kProcesses = 4;
  static Picoseconds begun = 0;
  static std::uint64_t datagrams = 0;
  constexpr Flow::Options kStream{.messages = 200, .at_once = 4, .bytes = kMiB};
  Crowd crowd{.ranks_a_node = kProcesses,
              .pairs = {},
              .begun =
                  [] {
                    begun = sim::World::get().now();
                    datagrams = sim::host().udp.delivered;
                    drivers().query_port = [](auto device, auto port, auto* attributes) {
                      ++g_port_queries;
                      return sim::verbs::backend_table().query_port(device, port, attributes);
                    };
                  },
              .done =
                  [](MeshRank&) {
                    const auto milliseconds = static_cast<std::uint64_t>((sim::World::get().now() - begun) / kMs);
                    // One look of the node in 4 ms, or in half of that. Each is heard by all processes of three nodes,
                    // our own on both cables, and answered by all but who asks.
                    const std::uint64_t looks = milliseconds / 2 + kProcesses;
                    const std::uint64_t heard = sim::host().udp.delivered - datagrams;
                    MESSAGE(milliseconds << " ms, " << heard << " datagrams, " << g_port_queries << " port queries");
                    CHECK(heard > 0);
                    CHECK(heard <= looks * (4 + 3) * kProcesses);
                    // The NICs, of which each process has two, are looked at once in 20 ms.
                    CHECK(g_port_queries <= (milliseconds / 20 + 2) * 2 * kRanks * kProcesses);
                  }};
  for (int process = 0; process < kProcesses; ++process) {
    crowd.pairs.push_back({kRanks * process, kRanks * process + kReceiver, kStream});
  }
  CHECK(crowd.run().outcome == OutcomeKind::kFinished);
}

}  // namespace way_looks_test

// Addresses that change at the receiving end: its senders are notified at once, and resume their connections where
// it is now. The real plugin on both ends.
#include <doctest/doctest.h>

#include "tests/net/striped_streams.h"
#include "tests/support/walk.h"

namespace move_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

constexpr const char* kLogged = "the peer reports that its address or GID there has changed";

/// Rank 1, which receives, gets another address on its NIC `nic`; rank 0 is notified, and nothing waits for retries.
void check_told(const models::Cluster& cluster, int nic, const char* what_broke,
                const std::function<void()>& trouble = {}) {
  const auto result = run_stream(cluster,
                                 {.before =
                                      [=](int message) {
                                        if (message != 100) return;
                                        change_address(cluster, {1, nic});
                                        if (trouble) trouble();
                                      }},
                                 [what_broke](MeshRank& rank) {
                                   CHECK(count(rank.warnings(), "retry counter exceeded") == 0);
                                   if (rank.rank() != 0) return;
                                   CHECK(count(rank.warnings(), kLogged) == 1);
                                   CHECK_MESSAGE(count(rank.warnings(), what_broke) >= 1, rank.warnings());
                                 });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

}  // namespace

TEST_CASE("a receiver's address changes under traffic: its sender goes on at once, with a second's patience") {
  check_told(with(pair_cluster(1), "NCCL_MESH_FAILOVER_TIMEOUT_SEC", "1"), 0,
             "192.168.100.77 QP 261: taken up again after 0 ms");
}

TEST_CASE(
    "an address changes twice in a row, or back, at either end: 48 moments, none of which costs retries or a second") {
  for (const int node : {0, 1}) {
    for (const int second : {78, node + 1}) {
      for (const int gap_us : walk(std::vector<int>{0, 1, 3, 5, 8, 12, 20, 30, 45, 70, 120, 300}, 4)) {
        const models::Cluster cluster = with(pair_cluster(1), "NCCL_MESH_FAILOVER_TIMEOUT_SEC", "1");
        const auto result =
            run_stream(cluster,
                       {.messages = 200,
                        .before =
                            [=](int message) {
                              if (message != 100) return;
                              change_address(cluster, {node, 0});
                              change_address(cluster, {node, 0}, gap_us * kPicosecondsPerMicrosecond,
                                             static_cast<std::uint8_t>(second));
                            }},
                       [](MeshRank& rank) { CHECK(count(rank.warnings(), "retry counter exceeded") == 0); });
        CAPTURE(node);
        CAPTURE(second);
        CAPTURE(gap_us);
        REQUIRE(result.outcome == OutcomeKind::kFinished);
      }
    }
  }
}

TEST_CASE("the address of a rail's other end changes: the sender's notice names the cable") {
  check_told(striped_pair(), 1, ", a rail of rocep1s0f0 192.168.100.1");
}

TEST_CASE("the cable is out while a receiver's address changes: its sender is notified as soon as it is back") {
  check_told(pair_cluster(1), 0, "192.168.100.77", [] {
    set_cable(0, false);
    set_cable(0, true, 1500 * kMs);
  });
}

TEST_CASE("the receiver's address changes while connections are made: 60 moments, none of which costs two seconds") {
  for (const int relayed : {0, 1}) {
    const models::Cluster cluster = relayed ? line_cluster(3) : pair_cluster(1);
    const int last = relayed ? 2 : 1;
    for (const int moment : walk_moments(30)) {
      const auto result = run_mesh(cluster, [&](MeshRank& rank) {
        if (rank.rank() == 0 || rank.rank() == last) {
          rank.meet("begun", 2);
          const Picoseconds begun = sim::World::get().now();
          if (rank.rank() == last) {
            const Picoseconds after = moment * (relayed ? 100 : 20) * kPicosecondsPerMicrosecond;
            change_address(cluster, {last, relayed ? 1 : 0}, after);
          }
          const Comms comms = rank.connect_both(last - rank.rank(), 0);
          CHECK(sim::World::get().now() - begun < 2 * kPicosecondsPerSecond);
          Buffer buffer = rank.buffer(rank.rank() == 0 ? comms.send : comms.receive, 5, 3);
          CHECK(rank.finish(rank.rank() == 0 ? rank.send(comms.send, buffer, 5)
                                             : rank.receive(comms.receive, buffer)) == 5);
          rank.release(rank.rank() == 0 ? comms.send : comms.receive, buffer);
          rank.meet("passed", 2);
          rank.close(comms);
        }
        rank.meet("end", static_cast<int>(cluster.nodes.size()));
      });
      CAPTURE(relayed);
      CAPTURE(moment);
      REQUIRE(result.outcome == OutcomeKind::kFinished);
    }
  }
}

namespace {

/// Rank 0 connects to the last one, which accepts so much later; the port gets another address after a while. Then a
/// message, which has no time to be taken for lost.
struct OneWay {
  models::Cluster cluster;
  models::PortRef port;
  Picoseconds changes_after = 0, accepts_after = 0;

  OutcomeKind run() const {
    const int ranks = static_cast<int>(cluster.nodes.size()), last = ranks - 1;
    return run_mesh(cluster,
                    [this, ranks, last](MeshRank& rank) {
                      if (rank.rank() == 0 || rank.rank() == last) connect(rank);
                      rank.meet("end", ranks);
                    })
        .outcome;
  }

 private:
  void connect(MeshRank& rank) const {
    const bool sends = rank.rank() == 0;
    void* listener = sends ? nullptr : rank.listen(0, "there");
    HandleBytes handle = rank.look_up("there");
    rank.meet("begun", 2);
    if (!sends) change_address(cluster, port, changes_after);
    if (!sends) sim::World::get().sleep(accepts_after);
    const Picoseconds begun = sim::World::get().now();
    Comms comms;
    while (sends && comms.send == nullptr) {
      REQUIRE(rank.net().connect(rank.context, 0, handle.data(), &comms.send, nullptr) == nccl::kNcclSuccess);
    }
    while (!sends && comms.receive == nullptr) {
      REQUIRE(rank.net().accept(listener, &comms.receive, nullptr) == nccl::kNcclSuccess);
    }
    rank.meet("connected", 2);
    CHECK(sim::World::get().now() - begun < 4 * kPicosecondsPerSecond);
    void* comm = sends ? comms.send : comms.receive;
    Buffer buffer = rank.buffer(comm, 5, 3);
    CHECK(rank.finish(sends ? rank.send(comm, buffer, 5) : rank.receive(comm, buffer)) == 5);
    rank.release(comm, buffer);
    rank.meet("passed", 2);
    CHECK((sends ? rank.net().closeSend(comm) : rank.net().closeRecv(comm)) == nccl::kNcclSuccess);
    if (listener != nullptr) CHECK(rank.net().closeListen(listener) == nccl::kNcclSuccess);
  }
};

}  // namespace

TEST_CASE("READY is lost with the receiver's address: accept() finds its sender, who looks at nothing, at 60 moments") {
  for (const int moment : walk_moments(60)) {
    const OneWay way{
        .cluster = pair_cluster(1), .port = {1, 0}, .changes_after = moment * 4 * kPicosecondsPerMicrosecond};
    CAPTURE(moment);
    REQUIRE(way.run() == OutcomeKind::kFinished);
  }
}

TEST_CASE("either end of a chain's last cable gets another address before accept() is called: the chain is made anew") {
  const models::Cluster line = line_cluster(3);
  const models::Cable& last = line.cables.back();
  for (const models::PortRef port : {last.a, last.b}) {
    const OneWay way{.cluster = line, .port = port, .changes_after = 500 * kMs, .accepts_after = 1000 * kMs};
    CAPTURE(port.node);
    REQUIRE(way.run() == OutcomeKind::kFinished);
  }
}

TEST_CASE("accept() is late, and another process of the peer's node has other NICs: the peer's are dialled on") {
  const models::Cluster cluster = pair_cluster(2);
  Shared shared;
  g_shared = &shared;
  const auto result = run_world({.cluster = cluster}, [&](sim::World& world) {
    sim::install_host(world, {});
    sim::install_verbs(world, std::string(MESHBED_BINARY_DIR) + "/sim-lib/libibverbs.so.1", nullptr);
    for (int number = 0; number < 3; ++number) {
      auto& process = world.add_process(number, std::min(number, 1), "rank" + std::to_string(number));
      if (number > 0) process.environment["NCCL_IB_HCA"] = cluster.nodes[1].nics[number == 1 ? 0 : 1].device;
      world.spawn(process, "main", [&shared, number] {
        MeshRank rank(shared, number);
        rank.start();
        Comms comms;
        if (number == 0) {
          HandleBytes handle = rank.look_up("late");
          while (comms.send == nullptr) {
            REQUIRE(rank.net().connect(rank.context, 0, handle.data(), &comms.send, nullptr) == nccl::kNcclSuccess);
          }
          CHECK(count(rank.infos(), "has left") == 0);
          CHECK(rank.net().closeSend(comms.send) == nccl::kNcclSuccess);
        } else if (number == 1) {
          void* listener = rank.listen(0, "late");
          sim::World::get().sleep(5 * kPicosecondsPerSecond);
          while (comms.receive == nullptr) {
            REQUIRE(rank.net().accept(listener, &comms.receive, nullptr) == nccl::kNcclSuccess);
          }
          CHECK(rank.net().closeRecv(comms.receive) == nccl::kNcclSuccess);
          CHECK(rank.net().closeListen(listener) == nccl::kNcclSuccess);
        }
        rank.meet("end", 3);
        CHECK(rank.warnings().empty());
        rank.stop();
      });
    }
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

}  // namespace move_test

// Relayed connections that have two ways round, and change over to the less loaded one: the real plugin.
#include "tests/net/two_ways.h"

#include <optional>

namespace two_ways_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

TEST_CASE(
    "two ways: a connection changes over to the one that carries less, once, and every byte comes once in order") {
  const auto result = run_traffic(
      balanced_ring(), {.flows = {{0, kAcross}, {1, kLoad}}, .after = [](MeshRank& rank, const Json& send) {
                          CHECK(changes_of(send) == 1);
                          CHECK(send.at("resumed") == 1);
                          CHECK(text_of(send, "way") == kByNode3);
                          CHECK(send.at("done") == kAcross.messages);
                          CHECK(rank.infos().find("a chain that carries less leads to the peer") != std::string::npos);
                          CHECK(rank.warnings().empty());
                        }});
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE(
    "long stream: two ways: no change for less than the threshold, nobody asked for it, nor where the other one "
    "carries "
    "as much") {
  const models::Cluster ring = balanced_ring();
  const auto stays = [](MeshRank& rank, const Json& send) {
    CHECK(changes_of(send) == 0);
    CHECK(text_of(send, "way") == kByNode1);
    CHECK(rank.infos().find("carries less") == std::string::npos);
  };
  const std::map<int, Flow::Options> beside{{0, kAcross}, {1, kLoad}};
  Flow::Options longer = kLoad;  // it has its cable for itself, and must not end first
  longer.messages *= 2;
  run_traffic(with(ring, "NCCL_MESH_RING_BALANCE_THRESHOLD", "67108864"), {.flows = beside, .after = stays});
  run_traffic(ring_cluster(kRanks), {.flows = beside, .after = stays});
  run_traffic(with(ring_cluster(kRanks), "NCCL_MESH_RING_LOAD_BALANCE", "0"), {.flows = beside, .after = stays});
  run_traffic(ring, {.flows = {{0, kAcross}, {1, kLoad}, {3, longer}}, .after = stays});
}

TEST_CASE("two ways: an idle connection stays, and asks for nothing") {
  const auto result =
      run_traffic(balanced_ring(), {.flows = {{0, {.messages = 4, .at_once = 4, .bytes = 4096}}, {1, kLoad}},
                                    .after = [](MeshRank& rank, const Json& send) {
                                      CHECK(changes_of(send) == 0);
                                      CHECK(text_of(send, "way") == kByNode1);
                                      CHECK(rank.infos().find("carries") == std::string::npos);  // nor did it ask
                                    }});
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("two ways: the cable of the new chain is pulled at four moments around the change: each message once") {
  const models::Cluster ring = balanced_ring();
  for (int moment = 0; moment < 4; ++moment) {
    auto pulled = std::make_shared<bool>(false);
    const auto result =
        run_traffic(ring, {.flows = {{0, kAcross}, {1, kLoad}},
                           .each_step =
                               [=](MeshRank& rank, int) {
                                 if (*pulled || rank.infos().find("carries less leads") == std::string::npos) return;
                                 *pulled = true;
                                 static std::deque<models::PortRef> ports;
                                 const auto cut = [](void* port, std::uint64_t up) {
                                   sim::set_link(sim::World::get(), *static_cast<models::PortRef*>(port), up != 0);
                                 };
                                 // Between nodes 3 and 0, so many microseconds after the old chain was left.
                                 for (const models::PortRef& port : {ring.cables[3].a, ring.cables[3].b}) {
                                   ports.push_back(port);
                                   const Picoseconds at = moment * 34 * kPicosecondsPerMicrosecond;
                                   sim::World::get().after(at, 0, cut, &ports.back(), 0);
                                   sim::World::get().after(at + 20 * kMs, 0, cut, &ports.back(), 1);
                                 }
                               },
                           .after =
                               [=](MeshRank&, const Json& send) {
                                 CHECK(*pulled);
                                 CHECK(send.at("state") == "up");
                                 CHECK(send.at("done") == kAcross.messages);
                               }});
    CAPTURE(moment);
    REQUIRE(result.outcome == OutcomeKind::kFinished);
  }
}

TEST_CASE("two ways: a connection that is made beside a stream begins on the other one") {
  const auto result = run_mesh(balanced_ring(), [](MeshRank& rank) {
    std::optional<Comms> beside;
    if (rank.rank() == 1) beside = rank.connect_both(kReceiver, 0);
    if (rank.rank() == kReceiver) beside = rank.connect_both(1, 0);
    Buffer large = rank.rank() == 1   ? rank.buffer(beside->send, 64 * kMiB, 1)
                   : rank.rank() == 2 ? rank.buffer(beside->receive, 64 * kMiB, 2)
                                      : Buffer{};
    rank.meet("beside", kRanks);
    void* request = rank.rank() == 1   ? rank.send(beside->send, large, 64 * kMiB)  // 5.5 ms
                    : rank.rank() == 2 ? rank.receive(beside->receive, large)
                                       : nullptr;
    if (rank.rank() == 0 || rank.rank() == kReceiver) {
      const Comms across = rank.connect_both(kReceiver - rank.rank(), 0);
      if (rank.rank() == 0) CHECK(text_of(connection_of(state_of(rank), "send"), "way") == kByNode3);
      rank.meet("seen", 2);
      rank.close(across);
    }
    if (request != nullptr) CHECK(rank.finish(request) == static_cast<int>(64 * kMiB));
    rank.meet("done", kRanks);
    if (beside) {
      rank.release(rank.rank() == 1 ? beside->send : beside->receive, large);
      rank.close(*beside);
    }
    rank.meet("end", kRanks);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

}  // namespace two_ways_test

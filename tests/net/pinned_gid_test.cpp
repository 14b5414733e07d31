// NCCL_IB_GID_INDEX, where a port that is up has no entry at that index: it is left out with one warning, and the job
// goes on over the others; without any other port init() fails, and says what the port has instead.
#include <doctest/doctest.h>

#include "tests/net/failover_streams.h"

namespace pinned_gid_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

/// Rank 0's last NIC alone lacks the index that all pin: the last one of the others' tables.
models::Cluster pinned(int cables) {
  models::Cluster cluster = pair_cluster(cables);
  std::vector<models::GidEntry>& gids = cluster.nodes[0].nics.back().gids;
  const std::uint32_t index = gids.back().index;
  gids.pop_back();
  REQUIRE_FALSE(gids.empty());
  return with(cluster, "NCCL_IB_GID_INDEX", std::to_string(index));
}

constexpr const char* kLacks = "no GID at NCCL_IB_GID_INDEX=";

}  // namespace

TEST_CASE("a port without the pinned GID index is left out with one warning, and the other cable carries the job") {
  const auto result = run_mesh(pinned(2), [](MeshRank& rank) {
    CHECK(count(rank.warnings(), kLacks) == (rank.rank() == 0 ? 1 : 0));
    int devices = 0;
    CHECK(rank.net().devices(&devices) == nccl::kNcclSuccess);
    CHECK(devices == (rank.rank() == 0 ? 1 : 2));
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    Buffer buffer = rank.buffer(rank.rank() == 0 ? comms.send : comms.receive, 5, 3);
    CHECK(rank.finish(rank.rank() == 0 ? rank.send(comms.send, buffer, 5) : rank.receive(comms.receive, buffer)) == 5);
    rank.release(rank.rank() == 0 ? comms.send : comms.receive, buffer);
    rank.meet("passed", 2);
    rank.close(comms);
    rank.meet("end", 2);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("the only port lacks the pinned GID index: init() fails at once and says what the port has") {
  const auto result = run_mesh(
      pinned(1),
      [](MeshRank& rank) {
        if (rank.rank() != 0) return;
        CHECK(rank.net().init(&rank.context, 1, nullptr, &keep_line, nullptr) != nccl::kNcclSuccess);
        CHECK(count(rank.warnings(), kLacks) == 1);
        CHECK(count(rank.warnings(), " is up, but has 0 (") == 1);
        CHECK(count(rank.warnings(), "No other port is left") == 1);
        CHECK(sim::World::get().now() < kPicosecondsPerSecond);
      },
      true);
  CHECK(result.outcome == OutcomeKind::kFinished);
}

}  // namespace pinned_gid_test

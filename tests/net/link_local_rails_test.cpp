// Ports with a link-local address alone, as the second function of a QSFP port often has: messages are striped over
// them beside the QP link's cable.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/gid_table.h"
#include "tests/net/striped_streams.h"

namespace link_local_rails_test {
using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

namespace {

constexpr const char* kLaid = "long messages are striped over";

/// NIC `from` and those behind it have no address.
models::Cluster bare_from(models::Cluster cluster, std::size_t from) {
  for (int node = 0; node < static_cast<int>(cluster.nodes.size()); ++node) {
    std::vector<models::Nic>& nics = cluster.nodes[static_cast<std::size_t>(node)].nics;
    for (std::size_t nic = from; nic < nics.size(); ++nic) {
      nics[nic].addresses.clear();
      nics[nic].gids = models::linux_gid_table({node, static_cast<int>(nic)}, {}, 0);
    }
  }
  return cluster;
}

models::Cluster striped_from(int cables, std::size_t bare) {
  return with(bare_from(pair_cluster(cables), bare), kStripes, "4096");
}

/// A stream that is right, and how often rank 0 laid a rail.
void stream_with_rails(const models::Cluster& cluster, std::size_t rails) {
  const auto result = run_stream(cluster, {}, [rails](MeshRank& rank) {
    if (rank.rank() == 0) CHECK(count(rank.infos(), kLaid) == rails);
    CHECK_MESSAGE(rank.warnings().empty(), rank.warnings());
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

}  // namespace

TEST_CASE("long stream: a port with a link-local address alone is a rail, and no device of its own") {
  stream_with_rails(striped_from(2, 1), 1);
  const auto result = run_mesh(striped_from(2, 1), [](MeshRank& rank) {
    int devices = 0;
    CHECK(rank.net().devices(&devices) == 0);
    CHECK(devices == 1);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("long stream: of several such ports each finds the one on its cable, with every queue pair") {
  stream_with_rails(striped_from(3, 1), 2);
  stream_with_rails(striped_from(4, 2), 3);
  stream_with_rails(with(striped_from(2, 1), "NCCL_IB_QPS_PER_CONNECTION", "2"), 3);
}

TEST_CASE("long stream: no rail over a link-local address where it is not wanted, slow, pinned away or not cabled") {
  stream_with_rails(with(striped_from(2, 1), kStripes, "0"), 0);
  const models::Cluster cluster = striped_from(2, 1);
  const std::string pinned = std::to_string(cluster.nodes[0].nics[0].gids.back().index);
  stream_with_rails(with(cluster, "NCCL_IB_GID_INDEX", pinned), 0);
  stream_with_rails(with(striped_from(2, 1), "NCCL_IB_HCA", "rocep1s0f0"), 0);
  models::Cluster slow = striped_from(2, 1);
  for (models::Node& node : slow.nodes) node.nics[1].rate_bps = 10'000'000'000;
  stream_with_rails(slow, 0);
  models::Cluster apart = striped_from(2, 1);
  apart.cables.pop_back();
  stream_with_rails(apart, 0);
  // One end alone.
  models::Cluster one_sided = with(pair_cluster(2), kStripes, "4096");
  one_sided.nodes[0] = striped_from(2, 1).nodes[0];
  one_sided.nodes[0].environment = one_sided.nodes[1].environment;
  stream_with_rails(one_sided, 0);
}

TEST_CASE("among three nodes with link-local second functions a connection finds the cable to its peer") {
  models::Cluster cluster = ring_cluster(3, 100'000'000'000, kPicosecondsPerMicrosecond, 2);
  // The second cable between each two nodes.
  std::map<std::pair<int, int>, int> seen;
  for (const models::Cable& cable : cluster.cables) {
    if (seen[std::minmax(cable.a.node, cable.b.node)]++ == 0) continue;
    for (const models::PortRef port : {cable.a, cable.b}) {
      models::Nic& nic = cluster.nodes[static_cast<std::size_t>(port.node)].nics[static_cast<std::size_t>(port.nic)];
      nic.addresses.clear();
      nic.gids = models::linux_gid_table(port, {}, 0);
    }
  }
  const auto result = run_mesh(with(cluster, kStripes, "4096"), [](MeshRank& rank) {
    if (rank.rank() < 2) {
      const Picoseconds begun = sim::World::get().now();
      const Comms comms = rank.connect_both(1 - rank.rank(), 0);
      // The pair of second functions whose cables lead to node 2 costs less than the patience with a silent cable.
      CHECK(sim::World::get().now() - begun < kPicosecondsPerSecond);
      CHECK(count(rank.infos(), kLaid) == 1);
      CHECK_MESSAGE(rank.warnings().empty(), rank.warnings());
      rank.meet("connected", 2);
      rank.close(comms);
    }
    rank.meet("closed", 3);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE(
    "the cable between link-local addresses goes under traffic: the stream goes on, and over it when it is back") {
  const auto result =
      run_stream(striped_from(2, 1),
                 {.before =
                      [](int message) {
                        if (message == 100) set_cable(1, false);
                        if (message == 250) set_cable(1, true);
                      }},
                 [](MeshRank& rank) {
                   if (rank.rank() != 0) return;
                   CHECK(rank.warnings().find("over which it is striped too, is down") != std::string::npos);
                   CHECK(count(rank.warnings(), "taken up again after") == 1);
                   CHECK(count(rank.infos(), kLaid) == 2);
                 });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

}  // namespace link_local_rails_test

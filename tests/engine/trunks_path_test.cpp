// Paths through switched networks of several boxes: links, latency, and the choice among equal trunks.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "models/lan/trunks.h"
#include "models/topology_generate.h"
#include "sim/engine/network.h"

namespace trunks_path_test {

using namespace meshbed;

namespace {

models::Cluster leaf_spine(int spines) {
  auto cluster = models::generate_topology({.kind = models::TopologyKind::kSwitch,
                                            .nodes = 4,
                                            .rate_bps = 100'000'000'000,
                                            .latency_ps = kPicosecondsPerMicrosecond,
                                            .switch_latency_ps = 300 * kPicosecondsPerNanosecond,
                                            .first_subnet = *models::read_prefix("192.168.100.0/24")});
  REQUIRE(cluster);
  REQUIRE(models::join_boxes(
      cluster->switches[0],
      {.kind = models::FabricKind::kLeafSpine, .leaves = 2, .spines = spines, .uplink_rate_bps = 50'000'000'000}, ""));
  return std::move(*cluster);
}

std::string names(const sim::Network& network, const sim::Path& path) {
  std::string text;
  for (const int link : path.links) text += network.links()[static_cast<std::size_t>(link)].name + " ";
  return text;
}

}  // namespace

TEST_CASE("a path has the links and delays of each box and trunk on its way") {
  const models::Cluster cluster = leaf_spine(1);
  const sim::Network network(cluster);
  const sim::Path* const within = network.path({0, 0}, {1, 0}, 9);
  CHECK(names(network, *within) == "node0/rocep1s0f0>leaf0 leaf0>node1/rocep1s0f0 ");
  CHECK(within->latency_ps == 2'300'000);
  const sim::Path* const across = network.path({0, 0}, {3, 0}, 9);
  CHECK(names(network, *across) == "node0/rocep1s0f0>leaf0 leaf0>spine0 spine0>leaf1 leaf1>node3/rocep1s0f0 ");
  CHECK(across->latency_ps == 4'900'000);
  CHECK(network.links()[static_cast<std::size_t>(across->links[1])].rate_bps == 50'000'000'000);
  CHECK(names(network, *network.path({3, 0}, {0, 0}, 9)) ==
        "node3/rocep1s0f0>leaf1 leaf1>spine0 spine0>leaf0 leaf0>node0/rocep1s0f0 ");
  // All of them are in one subnet.
  CHECK(network.neighbours({0, 0}).size() == 3);
}

TEST_CASE("flows of one pair take different spines, each always the same") {
  const models::Cluster cluster = leaf_spine(4);
  const sim::Network network(cluster), again(cluster);
  std::set<std::string> ways;
  for (std::uint64_t flow = 0; flow < 100; ++flow) {
    const std::string way = names(network, *network.path({0, 0}, {2, 0}, flow));
    CHECK(way == names(again, *again.path({0, 0}, {2, 0}, flow)));
    CHECK(network.path({0, 0}, {2, 0}, flow) == network.path({0, 0}, {2, 0}, flow));
    ways.insert(way);
  }
  CHECK(ways.size() == 4);
  // Within a leaf there is no choice, and one path for all flows.
  CHECK(network.path({0, 0}, {1, 0}, 1) == network.path({0, 0}, {1, 0}, 2));
}

}  // namespace trunks_path_test

#include "models/relay.h"

#include <doctest/doctest.h>

#include "models/topology_generate.h"

namespace relay_test {

using namespace meshbed;
using namespace meshbed::models;

namespace {

constexpr std::uint64_t k100G = 100'000'000'000;

Topology generated(TopologyKind kind, int nodes) {
  const auto cluster = generate_topology({.kind = kind,
                                          .nodes = nodes,
                                          .rate_bps = k100G,
                                          .latency_ps = kPicosecondsPerMicrosecond,
                                          .switch_latency_ps = 300 * kPicosecondsPerNanosecond,
                                          .first_subnet = *read_prefix("192.168.100.0/24")});
  REQUIRE(cluster.has_value());
  return analyse(*cluster);
}

}  // namespace

TEST_CASE("far hops: those between nodes that are no neighbours on the ring") {
  CHECK(mean_far_hops(generated(TopologyKind::kRing, 4), 4) == 2);
  CHECK(mean_far_hops(generated(TopologyKind::kRing, 8), 8) == doctest::Approx((2 * 2 + 2 * 3 + 4) / 5.0));
  CHECK(mean_far_hops(generated(TopologyKind::kFullMesh, 5), 5) == 1);
  CHECK(mean_far_hops(generated(TopologyKind::kFullMesh, 3), 3) == 1);  // there are none
  CHECK(mean_far_hops(generated(TopologyKind::kRing, 8), 5) == doctest::Approx((2 + 2 + 3 + 3 + 2) / 5.0));
  CHECK(mean_far_hops(Topology{.segments = {}, .segments_of_node = {{}, {}, {}, {}}, .crossed = {}, .shared_links = {}},
                      4) == 4);
}

TEST_CASE("a ring's four diagonals cross two cables each, and eight directions of cables share them") {
  std::vector<Flow> flows;
  for (int node = 0; node < 4; ++node) flows.push_back({.from = node, .to = (node + 2) % 4, .bytes = kMiB});
  CHECK(relay_bound_ps(generated(TopologyKind::kRing, 4), flows) == wire_time_ps(4 * 2 * kMiB, 8 * k100G));
}

TEST_CASE("a line's ends are as far apart as it has cables") {
  CHECK(relay_bound_ps(generated(TopologyKind::kLine, 5), {{.from = 0, .to = 4, .bytes = kMiB}}) ==
        wire_time_ps(4 * kMiB, 8 * k100G));
}

TEST_CASE("what never leaves its node, and what has no way, costs no cable anything") {
  const Topology topology = generated(TopologyKind::kRing, 4);
  CHECK(relay_bound_ps(topology, {{.from = 1, .to = 1, .bytes = kMiB}}) == 0);
  CHECK(relay_bound_ps(topology, {}) == 0);
  CHECK(relay_bound_ps(Topology{}, {}) == 0);
}

TEST_CASE("the widest chain is as wide as its slowest hop, over one cable or many") {
  auto cluster = generate_topology({.kind = TopologyKind::kRing,
                                    .nodes = 4,
                                    .rate_bps = k100G,
                                    .latency_ps = kPicosecondsPerMicrosecond,
                                    .switch_latency_ps = 300 * kPicosecondsPerNanosecond,
                                    .first_subnet = *read_prefix("192.168.100.0/24")});
  REQUIRE(cluster.has_value());
  cluster->cables[0].rate_bps = k100G / 4;
  cluster->cables[2].rate_bps = k100G / 2;
  const Topology topology = analyse(*cluster);
  CHECK(widest_chain_bps(topology, 0, 1) == k100G / 2);  // three cables round, rather than the slow one
  CHECK(widest_chain_bps(topology, 1, 2) == k100G);
  CHECK(widest_chain_bps(topology, 2, 3) == k100G / 2);
  CHECK(widest_chain_bps(topology, 2, 2) == 0);
}

}  // namespace relay_test

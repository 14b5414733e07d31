// What the functions behind one PCIe link share.
#include "models/pcie.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "models/relay.h"
#include "models/topology.h"
#include "models/topology_generate.h"

namespace pcie_test {

using namespace meshbed;
using namespace meshbed::models;

namespace {

constexpr std::uint64_t kGigabit = 1'000'000'000;

Cluster sparks(TopologyKind kind, int nodes, int rails, std::uint64_t rate_bps = 100 * kGigabit) {
  return *generate_topology({.kind = kind,
                             .nodes = nodes,
                             .rails = rails,
                             .rate_bps = rate_bps,
                             .first_subnet = *parse_prefix("10.0.0.0/24"),
                             .spark_pcie = true});
}

std::vector<int> links_of(const Node& node) {
  std::vector<int> links;
  for (const Nic& nic : node.nics) links.push_back(nic.pcie);
  return links;
}

}  // namespace

TEST_CASE("four lanes of generation 5 carry 100 Gb/s, others in proportion to lanes and coded transfers") {
  CHECK(pcie_rate_bps(4, 5) == 100 * kGigabit);
  CHECK(pcie_rate_bps(2, 5) == 50 * kGigabit);
  CHECK(pcie_rate_bps(16, 5) == 400 * kGigabit);
  CHECK(pcie_rate_bps(16, 4) == 200 * kGigabit);
  CHECK(pcie_rate_bps(16, 3) == 100 * kGigabit);
  // 8b/10b in the place of 128b/130b: 5 GT/s of generation 2 are half of 8 GT/s, less an eighth and a bit.
  CHECK(pcie_rate_bps(8, 2) == static_cast<std::uint64_t>(32 / (4 * 32 * 128.0 / 130) * 100 * kGigabit + 0.5));
}

TEST_CASE("a Spark's ports have one function on each of its two links, and one function's port stands alone on one") {
  using Links = std::vector<int>;
  CHECK(links_of(sparks(TopologyKind::kRing, 2, 1).nodes[0]) == Links{0});
  CHECK(links_of(sparks(TopologyKind::kRing, 2, 2).nodes[0]) == Links{0, 1});        // one port, two functions
  CHECK(links_of(sparks(TopologyKind::kRing, 2, 4).nodes[1]) == Links{0, 1, 0, 1});  // two ports
  CHECK(links_of(sparks(TopologyKind::kRing, 4, 1).nodes[2]) == Links{0, 1});
  CHECK(links_of(sparks(TopologyKind::kRing, 4, 2).nodes[2]) == Links{0, 0, 1, 1});  // rocep1s0f0, f1; rocep2s0f0, f1
  CHECK(links_of(sparks(TopologyKind::kSwitch, 3, 2).nodes[2]) == Links{0, 1});
  // No Spark has three ports, or five functions.
  CHECK(sparks(TopologyKind::kFullMesh, 4, 1).nodes[0].pcie.empty());
  CHECK(sparks(TopologyKind::kRing, 2, 5).nodes[0].pcie.empty());
  CHECK(links_of(sparks(TopologyKind::kStar, 4, 1).nodes[1]) == Links{0});  // a leaf may be one; its hub is none
}

TEST_CASE("only a link that carries less than its ports together limits them") {
  CHECK(shared_links(sparks(TopologyKind::kRing, 4, 1)).empty());
  CHECK(shared_links(sparks(TopologyKind::kRing, 2, 2)).empty());
  const std::vector<SharedLink> two_cables = shared_links(sparks(TopologyKind::kRing, 2, 4));
  REQUIRE(two_cables.size() == 4);
  CHECK(two_cables[1].node == 0);
  CHECK(two_cables[1].pcie == 1);
  CHECK(two_cables[1].rate_bps == 100 * kGigabit);
  CHECK(two_cables[1].ports == std::vector<PortRef>{{0, 1}, {0, 3}});
  // A function of 200 Gb/s alone.
  CHECK(shared_links(sparks(TopologyKind::kRing, 3, 1, 200 * kGigabit)).size() == 6);
  Cluster wide = sparks(TopologyKind::kRing, 2, 4);
  for (Node& node : wide.nodes) node.pcie[0].rate_bps = 0;  // no limit
  CHECK(shared_links(wide).size() == 2);
}

TEST_CASE("two cables between Sparks carry what their PCIe links do: 200 Gb/s, and a link of half width 50 less") {
  Cluster pair = sparks(TopologyKind::kRing, 2, 4);
  const auto joint = [](const Cluster& cluster, int from, int to) {
    const Topology topology = analyse(cluster);
    return joint_rate_bps(topology, direct_paths(topology, from, to));
  };
  CHECK(node_rate_bps(pair.nodes[0], cabled_nics(pair)[0]) == 200 * kGigabit);
  CHECK(joint(pair, 0, 1) == 200 * kGigabit);
  pair.nodes[1].pcie[1].rate_bps = pcie_rate_bps(2, 5);
  CHECK(node_rate_bps(pair.nodes[1], cabled_nics(pair)[1]) == 150 * kGigabit);
  CHECK(joint(pair, 0, 1) == 150 * kGigabit);
  CHECK(joint(pair, 1, 0) == 150 * kGigabit);
  CHECK(joint(sparks(TopologyKind::kRing, 4, 2), 0, 1) == 200 * kGigabit);  // one function a link
  for (const Segment& segment : analyse(sparks(TopologyKind::kRing, 3, 1, 200 * kGigabit)).segments) {
    CHECK(segment.port_rates_bps == std::vector<std::uint64_t>{100 * kGigabit, 100 * kGigabit});
  }
}

TEST_CASE("a NIC without a cable adds nothing to what a node carries") {
  Cluster ring = sparks(TopologyKind::kRing, 2, 4);
  ring.cables.pop_back();  // one function of the second link is left
  const std::vector<std::vector<int>> cabled = cabled_nics(ring);
  CHECK(cabled == std::vector<std::vector<int>>{{0, 1, 2}, {0, 1, 2}});
  ring.nodes[0].pcie[1].rate_bps = 150 * kGigabit;
  CHECK(node_rate_bps(ring.nodes[0], cabled[0]) == 200 * kGigabit);
  CHECK(node_rate_bps(ring.nodes[0], {0, 1, 2, 3}) == 250 * kGigabit);
}

TEST_CASE("relaying is bound by what nodes send together") {
  // Diagonals of a ring of four on both functions: 2 hops for each of 4 x 100 MB, over 4 x 200 Gb/s instead of 400.
  const Topology topology = analyse(sparks(TopologyKind::kRing, 4, 2));
  std::vector<Flow> flows;
  for (int node = 0; node < 4; ++node) flows.push_back({node, (node + 2) % 4, 100'000'000});
  CHECK(relay_bound_ps(topology, flows) == wire_time_ps(8 * 100'000'000ULL, 800 * kGigabit));
}

TEST_CASE("a listed node with a Spark's device names hangs on its two links") {
  Node node;
  for (const char* device : {"rocep1s0f0", "rocep1s0f1", "roceP2p1s0f0", "roceP2p1s0f1", "mlx5_7"}) {
    Nic& nic = node.nics.emplace_back();
    nic.device = device;
    nic.rate_bps = 100 * kGigabit;
  }
  Node half = node;
  hang_on_spark_links_by_name(node);
  CHECK(links_of(node) == std::vector<int>{0, 0, 1, 1, -1});
  CHECK(node_rate_bps(node, {0, 1, 2, 3, 4}) == 300 * kGigabit);
  half.nics.resize(2);  // only names that other cards have, too
  hang_on_spark_links_by_name(half);
  CHECK(half.pcie.empty());
}

TEST_CASE("GPUs have the NICs of their switch, or an even part of all") {
  Node node;
  node.nics.resize(4);
  node.gpus.resize(4);
  const std::vector<int> all{0, 1, 2, 3};
  for (int gpu = 0; gpu < 4; ++gpu) CHECK(gpu_nics(node, all, gpu, 1) == std::vector<int>{gpu});
  node.gpus.resize(2);
  CHECK(gpu_nics(node, all, 1, 1) == std::vector<int>{2, 3});
  CHECK(gpu_nics(node, {0, 2}, 1, 1) == std::vector<int>{2});
  CHECK(gpu_nics(node, all, 3, 8) == std::vector<int>{1});        // eight GPUs on four NICs
  CHECK(gpu_nics(node, {0, 1, 2}, 1, 1) == std::vector<int>{1});  // one each; the third is left
  node.pcie = {{"switch0", 0}, {"switch1", 0}};
  node.gpus[0].pcie = 1;
  node.nics[0].pcie = node.nics[3].pcie = 1;
  CHECK(gpu_nics(node, all, 0, 1) == std::vector<int>{0, 3});
  CHECK(gpu_nics(node, {1, 2}, 0, 1) == std::vector<int>{1});  // none of them is there
}

}  // namespace pcie_test

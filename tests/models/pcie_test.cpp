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
                             .first_subnet = *read_prefix("10.0.0.0/24"),
                             .functions = NicLayout::kSpark});
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
  using Names = std::vector<std::string>;
  CHECK(links_of(sparks(TopologyKind::kRing, 2, 1).nodes[0]) == Links{0});
  CHECK(links_of(sparks(TopologyKind::kRing, 2, 2).nodes[0]) == Links{0, 1});        // one port, two functions
  CHECK(links_of(sparks(TopologyKind::kRing, 2, 4).nodes[1]) == Links{0, 1, 0, 1});  // two ports
  CHECK(links_of(sparks(TopologyKind::kRing, 4, 1).nodes[2]) == Links{0, 1});
  CHECK(links_of(sparks(TopologyKind::kRing, 4, 2).nodes[2]) == Links{0, 0, 1, 1});
  CHECK(links_of(sparks(TopologyKind::kSwitch, 3, 2).nodes[2]) == Links{0, 1});
  CHECK(links_of(sparks(TopologyKind::kLine, 3, 2).nodes[0]) == Links{0, 1});
  // The names of the machine itself, and its ports.
  const Cluster ring = sparks(TopologyKind::kRing, 4, 2);
  Names devices, netdevs, ports;
  for (const Nic& nic : ring.nodes[3].nics) {
    devices.push_back(nic.device);
    netdevs.push_back(nic.netdev);
    ports.push_back(nic.qsfp);
  }
  CHECK(devices == Names{"rocep1s0f0", "rocep1s0f1", "roceP2p1s0f0", "roceP2p1s0f1"});
  CHECK(netdevs == Names{"enp1s0f0np0", "enp1s0f1np1", "enP2p1s0f0np0", "enP2p1s0f1np1"});
  CHECK(ports == Names{"qsfp0", "qsfp1", "qsfp0", "qsfp1"});
  CHECK(ring.nodes[0].nics[2].pci_path == "/sys/devices/pci0002:00/0002:00:00.0/0002:01:00.0");
  // Both functions of a port are on one switch.
  CHECK(sparks(TopologyKind::kSwitch, 3, 2).switches.size() == 1);
  CHECK(sparks(TopologyKind::kSwitch, 3, 4).switches.size() == 2);
}

TEST_CASE("what no Spark can be is refused") {
  const auto error_of = [](TopologyKind kind, int nodes, int rails, int nics = 0) {
    const auto made = generate_topology({.kind = kind,
                                         .nodes = nodes,
                                         .nics = nics,
                                         .rails = rails,
                                         .rate_bps = 200 * kGigabit,
                                         .first_subnet = *read_prefix("10.0.0.0/24"),
                                         .functions = NicLayout::kSpark});
    return made ? std::string() : made.error().text;
  };
  CHECK(error_of(TopologyKind::kFullMesh, 4, 1).find("3 NICs for 3 neighbours do not fit it") != std::string::npos);
  CHECK(error_of(TopologyKind::kRing, 2, 5).find("5 NICs for 1 neighbour do not fit it") != std::string::npos);
  CHECK(error_of(TopologyKind::kStar, 4, 1).find("functions = \"separate\"") != std::string::npos);
  CHECK(error_of(TopologyKind::kRing, 3, 1, 4).empty());
}

TEST_CASE("two functions of one port carry the port's rate together, whatever their PCIe links would") {
  const auto joint = [](const Cluster& cluster) {
    const Topology topology = analyse(cluster);
    return joint_rate_bps(topology, direct_paths(topology, 0, 1));
  };
  const Cluster fast = sparks(TopologyKind::kRing, 2, 2, 200 * kGigabit);
  CHECK(joint(fast) == 200 * kGigabit);  // two links of 100
  const Cluster slow = sparks(TopologyKind::kRing, 2, 2, 100 * kGigabit);
  CHECK(joint(slow) == 100 * kGigabit);
  CHECK(node_rate_bps(slow.nodes[0], {0, 1}) == 100 * kGigabit);
  const std::vector<SharedLink> shared = shared_links(slow);
  REQUIRE(shared.size() == 2);
  CHECK(shared[0].is_qsfp());
  CHECK(shared[0].name == "qsfp0");
  CHECK(shared[0].ports == std::vector<PortRef>{{0, 0}, {0, 1}});
  CHECK(node_rate_bps(sparks(TopologyKind::kRing, 4, 2, 100 * kGigabit).nodes[0], {0, 1, 2, 3}) == 200 * kGigabit);
}

TEST_CASE("functions of one port reach all functions of the other end that are in their subnet") {
  Cluster pair = sparks(TopologyKind::kRing, 2, 2, 200 * kGigabit);
  CHECK(analyse(pair).segments.size() == 2);
  for (int node = 0; node < 2; ++node) {
    for (int nic = 0; nic < 2; ++nic) {
      pair.nodes[static_cast<std::size_t>(node)].nics[static_cast<std::size_t>(nic)].addresses = {
          *read_prefix("10.0.0.1" + std::to_string(2 * nic + node) + "/24")};
    }
  }
  const Topology one = analyse(pair);
  REQUIRE(one.segments.size() == 1);
  CHECK(one.crossed.empty());
  CHECK(one.segments[0].ports == std::vector<PortRef>{{0, 0}, {0, 1}, {1, 0}, {1, 1}});
  CHECK(direct_paths(one, 0, 1).size() == 4);
  CHECK(joint_rate_bps(one, direct_paths(one, 0, 1)) == 200 * kGigabit);  // four ways, two functions
  // Swapped subnets are no crossed cable either.
  std::swap(pair.nodes[0].nics[0].addresses, pair.nodes[0].nics[1].addresses);
  CHECK(analyse(pair).crossed.empty());
}

TEST_CASE("only a link that carries less than its ports together limits them") {
  CHECK(shared_links(sparks(TopologyKind::kRing, 4, 1)).empty());
  CHECK(shared_links(sparks(TopologyKind::kRing, 2, 2, 200 * kGigabit)).size() == 4);  // each function's own
  const std::vector<SharedLink> two_cables = shared_links(sparks(TopologyKind::kRing, 2, 4));
  REQUIRE(two_cables.size() == 8);  // and both QSFP ports of each, at 100 Gb/s
  CHECK(two_cables[1].node == 0);
  CHECK(two_cables[1].pcie == 1);
  CHECK(two_cables[1].rate_bps == 100 * kGigabit);
  CHECK(two_cables[1].ports == std::vector<PortRef>{{0, 1}, {0, 3}});
  // A function of 200 Gb/s alone.
  CHECK(shared_links(sparks(TopologyKind::kRing, 3, 1, 200 * kGigabit)).size() == 6);
  Cluster wide = sparks(TopologyKind::kRing, 2, 4);
  for (Node& node : wide.nodes) node.pcie[0].rate_bps = 0;  // no limit
  CHECK(shared_links(wide).size() == 6);
}

TEST_CASE("two cables between Sparks carry what their PCIe links do: 200 Gb/s, and a link of half width 50 less") {
  Cluster pair = sparks(TopologyKind::kRing, 2, 4, 200 * kGigabit);
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
  CHECK(joint(sparks(TopologyKind::kRing, 4, 2, 200 * kGigabit), 0, 1) == 200 * kGigabit);  // one function a link
  for (const Segment& segment : analyse(sparks(TopologyKind::kRing, 3, 1, 200 * kGigabit)).segments) {
    CHECK(segment.port_rates_bps == std::vector<std::uint64_t>{100 * kGigabit, 100 * kGigabit});
  }
}

TEST_CASE("a NIC without a cable adds nothing to what a node carries") {
  Cluster ring = sparks(TopologyKind::kRing, 2, 4);
  for (Nic& nic : ring.nodes[0].nics) nic.qsfp.clear();
  ring.cables.pop_back();  // one function of the second link is left
  const std::vector<std::vector<int>> cabled = cabled_nics(ring);
  CHECK(cabled == std::vector<std::vector<int>>{{0, 1, 2}, {0, 1, 2}});
  ring.nodes[0].pcie[1].rate_bps = 150 * kGigabit;
  CHECK(node_rate_bps(ring.nodes[0], cabled[0]) == 200 * kGigabit);
  CHECK(node_rate_bps(ring.nodes[0], {0, 1, 2, 3}) == 250 * kGigabit);
}

TEST_CASE("relaying is bound by what nodes send together") {
  // Diagonals of a ring of four on both functions: 2 hops for each of 4 x 100 MB, over 4 x 200 Gb/s instead of 400.
  const Topology topology = analyse(sparks(TopologyKind::kRing, 4, 2, 200 * kGigabit));
  std::vector<Flow> flows;
  for (int node = 0; node < 4; ++node) flows.push_back({node, (node + 2) % 4, 100'000'000});
  CHECK(relay_bound_ps(topology, flows) == wire_time_ps(8 * 100'000'000ULL, 800 * kGigabit));
}

TEST_CASE("a Spark's NICs are known by their names; merged ones are both functions of a port, behind both links") {
  Node node;
  for (const char* device : {"rocep1s0f0", "rocep1s0f1", "roceP2p1s0f0", "roceP2p1s0f1", "mlx5_7"}) {
    Nic& nic = node.nics.emplace_back();
    nic.device = device;
    nic.rate_bps = 100 * kGigabit;
  }
  Node merged = node, other = node;
  CHECK(join_spark_functions(node, NicLayout::kSpark) == 4);
  CHECK(links_of(node) == std::vector<int>{0, 0, 1, 1, -1});
  CHECK(node.nics[2].qsfp == "qsfp0");
  CHECK(node.nics[4].qsfp.empty());
  CHECK(node_rate_bps(node, {0, 1, 2, 3, 4}) == 300 * kGigabit);
  merged.nics.resize(2);
  for (Nic& nic : merged.nics) nic.rate_bps = 200 * kGigabit;
  CHECK(join_spark_functions(merged, NicLayout::kSparkMerged) == 2);
  CHECK(links_of(merged) == std::vector<int>{0, 0});
  CHECK(node_rate_bps(merged, {0}) == 200 * kGigabit);
  CHECK(node_rate_bps(merged, {0, 1}) == 200 * kGigabit);
  other.nics.erase(other.nics.begin(), other.nics.begin() + 4);
  CHECK(join_spark_functions(other, NicLayout::kSpark) == 0);
  CHECK(other.pcie.empty());
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

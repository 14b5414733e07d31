// PCIe links, GPUs and the places of ranks, as scenario files say them.
#include "testbed/scenario/placement.h"

#include <doctest/doctest.h>

#include <cstddef>

#include "models/pcie.h"
#include "models/topology.h"
#include "testbed/render/render.h"
#include "testbed/scenario/findings/findings.h"
#include "testbed/scenario/scenario.h"
#include "testbed/topology/report.h"
#include "testbed/topology/rules.h"

namespace placement_test {

using namespace meshbed;
using namespace meshbed::testbed;

namespace {

constexpr const char* kSpark = "functions = \"spark\"\n";

Scenario read(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_scenario(text, "test.toml", overrides);
}

std::string errors_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    (void)read(text, overrides);
  } catch (const ScenarioError& error) {
    return error.what();
  }
  return "";
}

std::string pair(const std::string& rest) { return "[topology]\nkind = \"ring\"\nnodes = 2\nrails = 4\n" + rest; }

std::string rails(const std::string& rest) { return "[topology]\nkind = \"switch\"\nnodes = 2\nrails = 4\n" + rest; }

std::uint64_t rate_bps(const Scenario& scenario, int node) {
  const auto index = static_cast<std::size_t>(node);
  return models::node_rate_bps(scenario.cluster.nodes[index], models::cabled_nics(scenario.cluster)[index]);
}

std::vector<int> devices(const Scenario& scenario, int rank) {
  return devices_by_rank(scenario, models::analyse(scenario.cluster))[static_cast<std::size_t>(rank)];
}

}  // namespace

TEST_CASE("generated Sparks have two PCIe links; other machines none; a file may say how wide they are") {
  const Scenario spark = read(pair(kSpark));
  REQUIRE(spark.cluster.nodes[1].pcie.size() == 2);
  CHECK(spark.cluster.nodes[1].nics[1].device == "roceP2p1s0f0");
  CHECK(spark.cluster.nodes[1].nics[1].netdev == "enP2p1s0f0np0");
  CHECK(spark.cluster.nodes[1].nics[1].rate_bps == 200'000'000'000);
  CHECK(rate_bps(spark, 1) == 200'000'000'000);
  CHECK(rate_bps(read(pair("")), 1) == 400'000'000'000);
  CHECK(rate_bps(read(pair("gpu_model = \"H100\"\n")), 1) == 400'000'000'000);
  CHECK(rate_bps(read(pair("gpu_model = \"gb10\"\n")), 1) == 200'000'000'000);
  CHECK(rate_bps(read(pair("gpu_model = \"GB10\"\nfunctions = \"separate\"\n")), 1) == 400'000'000'000);
  // ASUS GX10 whose second link negotiated x2 (forums.developer.nvidia.com/t/367853).
  const std::string narrow =
      kSpark + std::string("[[node]]\nname = \"node1\"\n[[node.pcie]]\nname = \"pcie1\"\nlanes = 2\ngeneration = 5\n");
  CHECK(rate_bps(read(pair(narrow)), 1) == 150'000'000'000);
  CHECK(rate_bps(read(pair(narrow)), 0) == 200'000'000'000);
  CHECK(rate_bps(read(pair(kSpark), {"node.node0.pcie.pcie0.rate=30Gb/s"}), 0) == 130'000'000'000);
  const Scenario moved = read(pair(kSpark), {"node.node0.nic.rocep1s0f0.pcie=none"});
  CHECK(moved.cluster.nodes[0].nics[0].pcie == -1);
}

TEST_CASE("a model of a GPU is a known one, whether GPU memory is used or not; free text switches nothing") {
  CHECK(errors_of(pair("gpu_model = \"GB1O\"\n")) ==
        "test.toml:5:13: gpu_model: there is no model of a GPU 'GB1O' (did you mean 'GB10'?); there are GB10, H100, "
        "A100, H200, and a profile's file, NAME.toml (calibrate gpu)");
  CHECK(errors_of(pair("[[node]]\nname = \"node0\"\ngpu_model = \"both functions\"\n"))
            .rfind("test.toml:7:13: gpu_model: there is no model of a GPU 'both functions'; there are GB10", 0) == 0);
  CHECK(errors_of(pair("gpu_model = \"none.toml\"\n")).rfind("test.toml:5:13: gpu_model: none.toml", 0) == 0);
  CHECK(errors_of(pair("functions = \"sparc\"\n")) ==
        "test.toml:5:13: functions: 'sparc' is unknown (did you mean 'spark'?); accepted: separate, spark, "
        "spark-merged");
  CHECK(
      errors_of(pair("[workload]\nmemory = \"gpu\"\n")) ==
      "test.toml:6:10: memory: node0's GPUs have no model; set gpu_model of [topology] or of the node to one of GB10, "
      "H100, A100, H200, or to a profile's file");
  CHECK(errors_of("[topology]\nkind = \"full-mesh\"\nnodes = 4\ngpu_model = \"GB10\"\n") ==
        "test.toml:4:13: a Spark has two QSFP ports, and two functions of each; 3 NICs for 3 neighbours do not fit it: "
        "fewer rails, or functions = \"separate\"");
}

TEST_CASE("two functions of one port may be in one subnet, and lead to one place") {
  const std::string nodes =
      "[topology]\nfunctions = \"spark\"\n[[node]]\nname = \"a\"\n[[node.nic]]\ndevice = \"rocep1s0f0\"\n[[node.nic]]\n"
      "device = \"roceP2p1s0f0\"\n[[node]]\nname = \"b\"\n[[node.nic]]\ndevice = \"rocep1s0f0\"\n[[node.nic]]\n"
      "device = \"roceP2p1s0f0\"\n";
  const std::string cable = "[[cable]]\nends = [\"a/rocep1s0f0\", \"b/rocep1s0f0\"]\nsubnet = \"10.1.0.0/24\"\n";
  const Scenario one = read(nodes + cable);
  REQUIRE(one.cluster.cables.size() == 2);  // the other functions are on the same wire
  CHECK(one.cluster.cables[1].name == "cable0-roceP2p1s0f0");
  const std::string further = "[[cable]]\nends = [\"a/roceP2p1s0f0\", \"b/roceP2p1s0f0\"]\nsubnet = ";
  const Scenario both = read(nodes + cable + further + "\"10.1.0.0/24\"\n");
  CHECK(to_text(both.cluster.nodes[1].nics[1].addresses.front()) == "10.1.0.4/24");
  CHECK(models::analyse(both.cluster).segments.size() == 1);
  // On wires of their own it stays an error, and so it is where one port is to lead to two nodes.
  std::string separate = nodes;
  separate.replace(separate.find("spark"), 5, "separate");
  CHECK(errors_of(separate + cable + further + "\"10.1.0.0/24\"\n").find("prefix overlap: ") != std::string::npos);
  const std::string third = "[[node]]\nname = \"c\"\n[[node.nic]]\ndevice = \"rocep1s0f0\"\n";
  CHECK(errors_of(nodes + third + cable +
                  "[[cable]]\nends = [\"a/roceP2p1s0f0\", \"c/rocep1s0f0\"]\nsubnet = \"10.2.0.0/24\"\n")
            .find("qsfp: a/rocep1s0f0 and a/roceP2p1s0f0 are functions of one port, and its one cable cannot lead to "
                  "two places") != std::string::npos);
}

TEST_CASE("a PCIe link that is none, or says two things, is refused with its place") {
  CHECK(errors_of(pair(kSpark + std::string("[[node]]\nname = \"node0\"\n[[node.nic]]\ndevice = \"rocep1s0f0\"\npcie = "
                                            "\"pcie9\"\n"))) ==
        "test.toml:10:8: pcie: there is no [[node.pcie]] 'pcie9' on node0; it has: pcie0, pcie1");
  const std::string node = "[[node]]\nname = \"node0\"\n[[node.pcie]]\n";
  CHECK(errors_of(pair(node + "name = \"a\"\nlanes = 4\n")) ==
        "test.toml:7:1: [[node.pcie]] lanes and generation go together, as in lanes = 4, generation = 5");
  CHECK(errors_of(pair(node + "name = \"a\"\nlanes = 4\ngeneration = 5\nrate = \"1Gb/s\"\n")) ==
        "test.toml:9:9: lanes: the rate follows from lanes and generation; leave one of the two out");
  CHECK(errors_of(pair(node + "rate = \"1Gb/s\"\n")) == "test.toml:7:1: [[node.pcie]] needs name");
  CHECK(errors_of(pair(node + "name = \"a\"\ngeneration = 7\nlanes = 4\n")) ==
        "test.toml:9:14: generation: 7 is out of range; accepted: 1 to 6");
  CHECK(errors_of(pair("[[node]]\nname = \"node0\"\ngpu_pcie = [\"pcie0\", \"pcie1\"]\n")) ==
        "test.toml:7:12: gpu_pcie: names 2 of 1 GPUs of node0; one for each");
  CHECK(errors_of(pair(kSpark), {"node.node0.pcie.pcie7.rate=1Gb/s"}) ==
        "--set node.node0.pcie.pcie7.rate=1Gb/s: there is no PCIe link 'pcie7' on node0 (did you mean 'pcie0'?); --set "
        "changes PCIe links that are there: pcie0, pcie1");
}

TEST_CASE("seven ranks and eight, contiguous, in turn and where they are said to be") {
  const Scenario uneven = read(rails("[workload]\nranks_per_node = [7, 8]\n"));
  CHECK(ranks_of(uneven) == 15);
  CHECK(node_of(uneven, 6) == 0);
  CHECK(node_of(uneven, 7) == 1);
  CHECK(ranks_on(uneven, 1) == 8);
  CHECK(ranks_per_node_text(uneven) == "7 or 8");
  const Scenario turns = read(rails("[workload]\nranks_per_node = [1, 3]\nplacement = \"round-robin\"\n"));
  CHECK(turns.rank_nodes == std::vector<int>{0, 1, 1, 1});
  CHECK(read(rails("[workload]\nranks_per_node = 2\nplacement = \"round-robin\"\n")).rank_nodes ==
        std::vector<int>{0, 1, 0, 1});
  const Scenario said = read(rails("[workload]\nplacement = [\"node1\", \"node0\", \"node1\"]\n"));
  CHECK(said.rank_nodes == std::vector<int>{1, 0, 1});
  CHECK_FALSE(is_one_a_node(said));
  CHECK(is_one_a_node(read(rails(""))));
}

TEST_CASE("one rank a GPU where the file says how many GPUs there are") {
  CHECK(ranks_of(read(rails(""))) == 2);
  CHECK(read(rails("gpus = 4\n")).rank_nodes == std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1});
  CHECK(read(rails("[[node]]\nname = \"node1\"\ngpus = 2\n")).rank_nodes == std::vector<int>{0, 1, 1});
}

TEST_CASE("ranks that do not fit the GPUs are named with them") {
  const std::string two = "[[node]]\nname = \"node1\"\ngpus = 2\n[workload]\n";
  CHECK(errors_of(rails(two + "ranks_per_node = 3\n")) ==
        "test.toml:9:18: ranks_per_node: node1 gets 3 ranks, and has gpus = 2; NCCL runs one rank a GPU");
  CHECK(errors_of(rails(two + "placement = [\"node1\", \"node1\", \"node1\"]\n")) ==
        "test.toml:9:13: placement: node1 gets 3 ranks, and has gpus = 2; NCCL runs one rank a GPU");
  const auto findings = finding_lines(read(rails(two + "ranks_per_node = 1\n")));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0] ==
        "note: node1: gpus = 2, and it runs 1 rank (ranks_per_node): the other GPUs do nothing [idle-gpus]");
  CHECK(errors_of(rails("[workload]\nranks_per_node = [1, 2, 3]\n")) ==
        "test.toml:6:18: ranks_per_node: 3 numbers for 2 nodes; one for each that runs ranks");
  CHECK(errors_of(rails("[workload]\nranks_per_node = [2]\n")) ==
        "test.toml:6:18: ranks_per_node: 1 number for 2 nodes; one for each that runs ranks");
  CHECK(read(rails("[workload]\nranks_per_node = [2]\nnodes = 1\n")).rank_nodes == std::vector<int>{0, 0});
  CHECK(errors_of(rails("[workload]\nranks_per_node = 1\nplacement = [\"node7\"]\n")) ==
        "test.toml:6:18: ranks_per_node: placement lists each rank's node; leave it out\n"
        "test.toml:7:14: placement: there is no node 'node7'; nodes are: node0, node1");
  CHECK(errors_of(rails("[workload]\nranks_per_node = []\n")) == "test.toml:6:18: ranks_per_node: lists no number");
  CHECK(errors_of(rails("[workload]\nplacement = \"anywhere\"\n")) ==
        "test.toml:6:13: placement: expects \"contiguous\", \"round-robin\" or a list of nodes, got 'anywhere'");
}

TEST_CASE("ranks of a node have NICs of their own, by their GPUs; a lone rank has all") {
  const Scenario four = read(rails("gpus = 4\n"));
  for (int rank = 0; rank < 8; ++rank) CHECK(devices(four, rank) == std::vector<int>{rank % 4});
  CHECK(devices(read(rails("gpus = 2\n")), 3) == std::vector<int>{2, 3});
  CHECK(devices(read(rails("")), 1).empty());
  CHECK(devices(read(rails("gpus = 4\n[environment]\nNCCL_IB_HCA = \"rocep1s0f0\"\n")), 1).empty());
  const std::string own =
      "gpus = 2\n[[node]]\nname = \"node0\"\ngpu_pcie = [\"b\", \"a\"]\n[[node.pcie]]\nname = \"a\"\n[[node.pcie]]\n"
      "name = \"b\"\n[[node.nic]]\ndevice = \"rocep1s0f0\"\npcie = \"a\"\n[[node.nic]]\ndevice = \"rocep2s0f1\"\n"
      "pcie = \"b\"\n";
  CHECK(devices(read(rails(own)), 0) == std::vector<int>{3});
  CHECK(devices(read(rails(own)), 1) == std::vector<int>{0});
  CHECK(devices(read(rails(own)), 2) == std::vector<int>{0, 1});
}

TEST_CASE("devices are the NICs that the net plugin opens: not a management port, unless the environment asks for it") {
  const std::string slow =
      "gpus = 2\n[[node]]\nname = \"node0\"\n[[node.nic]]\ndevice = \"rocep1s0f0\"\nrate = \"10Gb/s\"\n";
  const Scenario some = read(rails(slow));
  const models::Topology topology = models::analyse(some.cluster);
  CHECK(device_nics(some, topology, 0) == std::vector<int>{1, 2, 3});
  CHECK(device_nics(some, topology, 1) == std::vector<int>{0, 1, 2, 3});
  const Scenario all = read(rails(slow + "[environment]\nNCCL_MESH_USE_MANAGEMENT = \"1\"\n"));
  CHECK(device_nics(all, topology, 0) == std::vector<int>{0, 1, 2, 3});
  // The second GPU of two, of three devices.
  CHECK(devices(some, 1) == std::vector<int>{1});
  const std::string report = topology_report(some, false);
  CHECK_MESSAGE(report.find("  rank 1  node0  " + some.cluster.nodes[0].nics[2].device + "\n") != std::string::npos,
                report);
  // One rank alone has all of them, and no phantom behind the last one.
  const std::string rules = text_of(rules_document(read(rails(slow), {"workload.ranks_per_node=[1, 2]"})));
  CHECK_MESSAGE(rules.find("\nnode0 -> node1   2-0 ") != std::string::npos, rules);
  CHECK_MESSAGE(rules.find("\nnode0 -> node1   3-") == std::string::npos, rules);
}

TEST_CASE("lint finds a function that its PCIe link cannot feed") {
  const auto findings = finding_lines(read("[topology]\nkind = \"ring\"\nnodes = 2\ngpu_model = \"GB10\"\n"));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0] ==
        "note: 2 × node0/rocep1s0f0, node1/rocep1s0f0: its port has 200 Gb/s, its PCIe link 100 Gb/s: it gets no more "
        "than the link carries; [[node.pcie]] describes the link [narrow-pcie]");
}

}  // namespace placement_test

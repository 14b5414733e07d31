// A scenario in the emulator's terms.
#include "testbed/world/emulate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "testbed/base/files.h"
#include "tests/support/command.h"

namespace emulate_test {

using namespace meshbed::testbed;
namespace emu = meshbed::emu;

namespace {

emu::EmuCluster cluster_of(const std::string& text) {
  Scenario scenario = parse_scenario(text, "here.toml", {});
  scenario.path = "/somewhere/here.toml";
  return emulated_cluster(scenario, {.command = {"run", "--seed", "7"},
                                     .rank_bytes = scenario.workload.bytes,
                                     .time_limit_s = 60,
                                     .say = {},
                                     .collect = {}});
}

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

TEST_CASE("nodes, NICs, addresses and cables are the scenario's, and each rank is one command in its node") {
  const emu::EmuCluster cluster =
      cluster_of("[topology]\nkind = \"ring\"\nnodes = 3\n[workload]\nranks_per_node = 2\n");
  emu::check_cluster(cluster);
  REQUIRE(cluster.nodes.size() == 3);
  CHECK(cluster.wires == 3);
  for (const auto& ends : emu::wire_ends(cluster)) CHECK(ends.size() == 2);
  const emu::EmuNode& node = cluster.nodes[1];
  CHECK(node.management_address.value_or("") == "198.18.0.2/16");
  REQUIRE(node.nics.size() == 2);
  CHECK(node.nics[0].rdma_device == "rocep1s0f0");
  CHECK(node.nics[0].mtu == 9000);
  CHECK(node.nics[0].addresses == std::vector<std::string>{"192.168.100.2/24"});
  REQUIRE(node.commands.size() == 2);
  for (const char* word :
       {"RANK=2", "WORLD_SIZE=6", "MASTER_ADDR=198.18.0.1", "MESHBED_WORLD_NAME=emu", "run", "--seed", "7"})
    CHECK_MESSAGE(has(node.commands[0], word), word);
  CHECK(has(node.commands[1], "RANK=3"));
}

TEST_CASE("a switch is one wire with all its ports, and a NIC whose link is down has none") {
  const emu::EmuCluster cluster = cluster_of(
      "[topology]\nkind = \"switch\"\nnodes = 4\n[[node]]\nname = \"node3\"\nnic = [{device = \"rocep1s0f0\", link = "
      "\"down\"}]\n");
  CHECK(cluster.wires == 1);
  CHECK(emu::wire_ends(cluster).at(0).size() == 3);
  CHECK(cluster.nodes[3].nics[0].wire == -1);
}

TEST_CASE("the report and the exit code are rank 0's, wherever placement puts it") {
  const Scenario scenario = parse_scenario(
      "[topology]\nkind = \"ring\"\nnodes = 3\n[workload]\nplacement = [\"node2\", \"node1\"]\n", "here.toml", {});
  const std::string folder = meshbed::test::scratch_folder("emulate_placed");
  const auto written = [&](const std::string& name, const std::string& text) {
    write_text_file(folder + "/" + name, text);
    return folder + "/" + name;
  };
  emu::ClusterOutcome outcome;
  for (const char* name : {"node0", "node1", "node2"}) {
    emu::NodeOutcome& node = outcome.nodes.emplace_back();
    node.name = name;
    node.end = emu::NodeEnd::kDone;
    node.folder = folder;
  }
  outcome.nodes[1].commands = {{.exit_code = 0, .stdout_path = written("1.out", "rank 1"), .stderr_path = ""}};
  outcome.nodes[2].commands = {
      {.exit_code = 4, .stdout_path = written("0.out", "rank 0"), .stderr_path = written("0.err", "followed\n")}};
  EmulateOptions options;
  std::vector<std::string> seen;
  options.collect = [&](const std::string& of) { seen.push_back(of); };
  Emulation result;
  outcome.nodes[2].folder = meshbed::test::scratch_folder("emulate_placed_first");
  collect(scenario, options, outcome, true, result);
  CHECK(result.report == "rank 0");
  CHECK(result.exit_code == 4);
  CHECK(result.troubles.empty());
  CHECK(seen == std::vector<std::string>{outcome.nodes[2].folder});
}

TEST_CASE("larger buffers get larger machines; no management network, no emulation") {
  const std::string pair = "[topology]\nkind = \"ring\"\nnodes = 2\n[workload]\nbytes = ";
  CHECK(cluster_of(pair + "\"512M\"\n").nodes[0].memory_mib - cluster_of(pair + "\"256M\"\n").nodes[0].memory_mib ==
        256);
  CHECK_THROWS_WITH_AS(
      cluster_of(
          "[topology]\nkind = \"ring\"\nnodes = 2\n[management]\nenabled = false\n[workload]\nkind = \"idle\"\n"),
      doctest::Contains("the ranks meet on the management network"), std::runtime_error);
}

TEST_CASE("a switch's MTU and VLANs, which the emulated world cannot have, are refused by name") {
  const std::string pair = "[topology]\nkind = \"switch\"\nnodes = 2\n";
  CHECK_THROWS_WITH_AS(cluster_of(pair + "[[switch]]\nname = \"switch0\"\nmtu = 1500\n"),
                       "--world emu: a switch lets frames of any size pass there, and here says switch0 mtu = 1500; "
                       "leave out switch.mtu, or "
                       "run it in the simulated world",
                       std::runtime_error);
  const auto with_nic = [&](const std::string& field) {
    return cluster_of(pair + "[[node]]\nname = \"node1\"\nnic = [{device = \"rocep1s0f0\", " + field + "}]\n");
  };
  CHECK_THROWS_WITH_AS(with_nic("switch_mtu = 1500"),
                       doctest::Contains("says node1/rocep1s0f0 switch_mtu = 1500; leave out"), std::runtime_error);
  CHECK_THROWS_WITH_AS(
      with_nic("vlan = 100"),
      doctest::Contains("nodes have no VLAN interfaces there, and here says node1/rocep1s0f0 vlan = 100"),
      std::runtime_error);
}

TEST_CASE("a net plugin by a relative path is the same file in a node, which starts in another folder") {
  const std::string head = "[topology]\nkind = \"ring\"\nnodes = 2\n[workload]\nnet_plugin = ";
  const auto plugin_in = [&](const std::string& path) {
    return cluster_of(head + "\"" + path + "\"\n").nodes[1].commands[0];
  };
  const std::string here = std::filesystem::current_path();
  CHECK(plugin_in("lib/other.so").back() == "workload.net_plugin=" + here + "/lib/other.so");
  CHECK(plugin_in("/lib/other.so").back() == "workload.net_plugin=/lib/other.so");
  // The loader looks such a name up, there as here.
  CHECK(plugin_in("other.so").back() == "7");
}

}  // namespace emulate_test

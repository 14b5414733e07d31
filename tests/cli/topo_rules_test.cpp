// Whose rules get a channel where: the ancestor's, NCCL's, ours.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/command/commands.h"
#include "testbed/scenario/scenario.h"
#include "testbed/topology/report.h"
#include "testbed/topology/rules.h"
#include "tests/support/walk.h"

namespace topo_rules_test {

using namespace meshbed::testbed;
using meshbed::models::Aim;
using meshbed::models::RoutingRule;

namespace {

const std::string kScenarios = MESHBED_SOURCE_DIR "/scenarios/";

meshbed::models::Aimed aim(RoutingRule rule, const std::string& scenario, int from, int to, int device) {
  const auto cluster = read_scenario(kScenarios + scenario + ".toml", {}).cluster;
  const auto topology = meshbed::models::analyse(cluster);
  return meshbed::models::RuleAims(rule, cluster, topology).aim(from, to, device);
}

/// Of `topo rules --json`, by the name of the rule.
nlohmann::json rule_of(const std::vector<std::string>& arguments, const std::string& rule) {
  std::vector<std::string> all{"rules", "--json"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::ostringstream out, err;
  CHECK(topo_command(all, out, err) == 0);
  const nlohmann::json report = nlohmann::json::parse(out.str());
  for (const auto& one : report.at("rules")) {
    if (one.at("rule") == rule) return one;
  }
  FAIL("there is no rule " << rule);
  return {};
}

std::string report_of(const std::string& file, const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all{"rules", file};
  for (const std::string& one : overrides) all.insert(all.end(), {"--set", one});
  std::ostringstream out, err;
  CHECK(topo_command(all, out, err) <= 1);  // 1: a finding is an error
  return out.str();
}

/// A file of the test's own, gone with it.
struct Written {
  explicit Written(const std::string& text) { std::ofstream(path) << text; }
  ~Written() { std::filesystem::remove(path); }
  std::string path =
      (std::filesystem::temp_directory_path() / ("rules-" + std::to_string(::getpid()) + ".toml")).string();
};

/// A ring of four, each cable in the same port of both of its ends.
std::string same_ports() {
  std::string text;
  for (int node = 0; node < 4; ++node) {
    text += "[[node]]\nname = \"n" + std::to_string(node) + "\"\n";
    for (int port = 0; port < 2; ++port) {
      // Port 0 joins 0-1 and 2-3, port 1 joins 1-2 and 3-0.
      const int subnet = port == 0 ? node / 2 : 2 + (node == 1 || node == 2 ? 0 : 1);
      text += "[[node.nic]]\ndevice = \"rocep1s0f" + std::to_string(port) + "\"\naddresses = [\"10.9." +
              std::to_string(subnet) + "." + std::to_string(node + 1) + "/24\"]\n";
    }
  }
  for (const char* ends : {"0/rocep1s0f0\", \"n1/rocep1s0f0", "2/rocep1s0f0\", \"n3/rocep1s0f0",
                           "1/rocep1s0f1\", \"n2/rocep1s0f1", "3/rocep1s0f1\", \"n0/rocep1s0f1"}) {
    text += std::string("[[cable]]\nends = [\"n") + ends + "\"]\n";
  }
  return text;
}

}  // namespace

TEST_CASE(
    "over all cablings of 2 to 5 (in whole walks 6) nodes with two NICs each Mesh reaches every pair that cables "
    "join, and no other") {
  // How many ways there are to cable so many nodes: 7, 51, 513, ... (no cable within a node, at most one into a NIC).
  const std::vector<std::uint64_t> cablings{7, 51, 513, 6345, 93255};
  const int most = meshbed::test::walks_whole() ? 6 : 5;  // six take 13 s
  for (int nodes = 2; nodes <= most; ++nodes) {
    const CablingTally tally = tally_cablings(nodes);
    CAPTURE(nodes);
    CHECK(tally.cablings == cablings[static_cast<std::size_t>(nodes - 2)]);
    REQUIRE(tally.rules.size() == 5);
    for (const RuleTally& rule : tally.rules) CHECK(rule.reached + rule.refused + rule.lost == tally.channels);
    const RuleTally& mesh = tally.rules.back();
    CHECK(mesh.rule == "Mesh");
    CHECK(mesh.reached == tally.connected);
    CHECK(mesh.lost == 0);
    CHECK(mesh.cut_off == 0);
    // The ancestor says so where it does not get through; NCCL never does.
    CHECK(tally.rules[0].lost == 0);
    CHECK(tally.rules[1].refused == 0);
    CHECK(tally.rules[1].lost > 0);
    // What the others reach needs no relay.
    CHECK(mesh.reached - mesh.relayed == tally.rules[0].reached);
    if (nodes > 2) CHECK(mesh.relayed > 0);
  }
}

TEST_CASE("a triangle by NCCL 2.30.7's rules: device to device, and by subnet, where both ends move") {
  // Trap 139 of the field reports: both channels go to the neighbour with which only one NIC shares a cable.
  CHECK(aim(RoutingRule::kNccl, "spark-triangle", 0, 1, 0).aim == Aim::kLost);
  CHECK(aim(RoutingRule::kNcclSubnetAware, "spark-triangle", 0, 1, 0).aim == Aim::kReached);
  CHECK(aim(RoutingRule::kNcclSubnetAware, "spark-triangle", 0, 1, 0).nic == 1);
  CHECK(aim(RoutingRule::kNcclSubnetAware, "spark-triangle", 0, 1, 1).aim == Aim::kReached);
  CHECK(aim(RoutingRule::kNcclSubnetAwareFused, "spark-triangle", 0, 1, 1).aim == Aim::kReached);
}

TEST_CASE("how many channels between neighbours NCCL reaches, by subnet and NICs not fused") {
  // Of net_ib's source, with the acceptor's half (connect.cc 1462-1476).
  const auto triangle = rule_of({kScenarios + "spark-triangle.toml"}, "nccl-subnet-aware");
  CHECK(triangle.at("channels") == 12);
  CHECK(triangle.at("reached") == 12);
  const auto ring = rule_of({kScenarios + "ring4.toml"}, "nccl-subnet-aware");
  CHECK(ring.at("channels") == 16);
  CHECK(ring.at("reached") == 16);
  CHECK(ring.at("far_channels") == 8);
  CHECK(ring.at("far_reached") == 0);
  CHECK(rule_of({kScenarios + "ring4.toml"}, "mesh").at("far_reached") == 8);
  const Written same(same_ports());
  const auto same_port = rule_of({same.path}, "nccl-subnet-aware");
  CHECK(same_port.at("channels") == 16);
  CHECK(same_port.at("reached") == 8);
  CHECK(same_port.at("lost") == 8);
  // Fused, a listener names both of its ports, and the connector finds the one that has a cable there.
  CHECK(rule_of({same.path}, "nccl-subnet-aware-fused").at("reached") == 16);
}

TEST_CASE("topo rules ends in the settings that make stock NCCL work on the cabling") {
  const auto last_line = [](const std::string& text) { return text.substr(text.rfind("\n\n") + 2); };
  CHECK(last_line(report_of(kScenarios + "spark-triangle.toml")) ==
        "stock NCCL reaches every neighbour on this cabling with NCCL_IB_SUBNET_AWARE_ROUTING=1\n");
  CHECK(last_line(report_of(kScenarios + "pair-dual-rail.toml")) ==
        "stock NCCL reaches every neighbour on this cabling with its defaults\n");
  CHECK(last_line(report_of(kScenarios + "ring4.toml"))
            .find("it does not relay: 8 channels between nodes that share "
                  "no cable are lost") != std::string::npos);
  const Written same(same_ports());
  CHECK(last_line(report_of(same.path)).find("NCCL_IB_SUBNET_AWARE_ROUTING=1\n") != std::string::npos);
  // Of a plan of /30s all cables are in one /24.
  CHECK(last_line(report_of(kScenarios + "spark-triangle.toml", {"topology.first_subnet=10.0.0.0/30"})) ==
        "stock NCCL reaches every neighbour on this cabling with NCCL_IB_SUBNET_AWARE_ROUTING=1 "
        "NCCL_IB_SUBNET_PREFIX_LEN=30\n");
}

TEST_CASE("topo rules lists the NICs that NCCL would open and Mesh leaves out, and says where there is none") {
  const Written lone(
      "[[node]]\nname = \"a\"\n[[node.nic]]\ndevice = \"d0\"\naddresses = [\"10.9.0.1/24\"]\n[[node.nic]]\n"
      "device = \"d1\"\naddresses = [\"10.9.1.1/24\"]\n[[node.nic]]\ndevice = \"d2\"\n[[node]]\nname = \"b\"\n"
      "[[node.nic]]\ndevice = \"d0\"\naddresses = [\"10.9.0.2/24\"]\n[[node.nic]]\ndevice = \"d2\"\n"
      "[[switch]]\nname = \"s\"\nports = [\"a/d0\", \"a/d1\", \"b/d0\"]\n"
      "[[cable]]\nends = [\"a/d2\", \"b/d2\"]\n");
  const std::string text = report_of(lone.path);
  CHECK(text.find("  a/d1: no port that it reaches has an address in its subnet\n") != std::string::npos);
  CHECK(text.find("  a/d2: no address; NCCL takes it by its link-local GID, fe80::") != std::string::npos);
  CHECK(text.find(", Mesh for stripes alone\n") != std::string::npos);
  const Written unplugged(
      "[[node]]\nname = \"a\"\n[[node.nic]]\ndevice = \"d0\"\n[[node]]\nname = \"b\"\n[[node.nic]]\ndevice = "
      "\"d0\"\n");
  const std::string empty = report_of(unplugged.path);
  CHECK(empty.find("There is nothing to list: no pair of nodes that run ranks has a NIC with a link.\n") !=
        std::string::npos);
  CHECK(empty.find("stock NCCL: no two nodes share a cable or switch: no setting helps\n") != std::string::npos);
}

TEST_CASE("a ring's diagonal: the ancestor refuses, NCCL times out, Mesh relays") {
  CHECK(aim(RoutingRule::kAncestor, "ring4", 0, 2, 0).aim == Aim::kRefused);
  CHECK(aim(RoutingRule::kNcclSubnetAwareFused, "ring4", 0, 2, 0).aim == Aim::kLost);
  const auto cluster = read_scenario(kScenarios + "ring4.toml", {}).cluster;
  const auto topology = meshbed::models::analyse(cluster);
  std::set<int> nics;  // the devices of one end take turns
  for (const int device : {0, 1}) {
    const MeshAim ours = MeshRules(cluster, topology).aim(0, 2, device);
    CHECK(ours.aim == Aim::kReached);
    CHECK(ours.cables == 2);
    nics.insert(ours.nic);
  }
  CHECK(nics == std::set<int>{0, 1});
}

TEST_CASE("parallel cables: the ancestor takes the first NIC for every channel, Mesh the one that is asked for") {
  CHECK(aim(RoutingRule::kAncestor, "pair-dual-rail", 0, 1, 1).nic == 0);
  const auto cluster = read_scenario(kScenarios + "pair-dual-rail.toml", {}).cluster;
  CHECK(MeshRules(cluster, meshbed::models::analyse(cluster)).aim(0, 1, 1).nic == 1);
}

TEST_CASE("Mesh leaves a slow port beside a fast one out, as the plugin does, unless it is asked for") {
  const auto aim_of_second = [](std::vector<std::string> overrides) {
    overrides.push_back("node.node0.nic.rocep1s0f1.rate=25Gb/s");
    const auto cluster = read_scenario(kScenarios + "pair-dual-rail.toml", overrides).cluster;
    return MeshRules(cluster, meshbed::models::analyse(cluster)).aim(0, 1, 1);
  };
  CHECK(aim_of_second({}).nic == 0);
  CHECK(aim_of_second({"environment.NCCL_MESH_USE_MANAGEMENT=1"}).nic == 1);
  CHECK(aim_of_second({"environment.NCCL_IB_HCA=rocep1s0f0,rocep1s0f1"}).nic == 1);
  CHECK(aim_of_second({"environment.NCCL_IB_HCA=^mlx5"}).nic == 0);
}

TEST_CASE("topo rules says what the tuner makes of the cabling") {
  const auto last_lines = [](const std::string& scenario) {
    const std::string text = report_of(kScenarios + scenario + ".toml");
    const std::size_t begin = text.find("\ntuner") + 1;
    return text.substr(begin, text.find("\n\n", begin) + 1 - begin);
  };
  CHECK(last_lines("ring4") ==
        "tuner, with ranks in the order node0 - node1 - node2 - node3\n"
        "algorithm  relays   load  extra cables  price\n"
        "Ring           no   1.00             0  as NCCL prices it\n"
        "Tree          yes   1.50             1  not taken, while there is a ring\n"
        "NVLSTree      yes   1.50             1  not taken, while there is a ring\n"
        "PAT           yes   1.67             1  not taken, while there is a ring\n");
  CHECK(last_lines("partial5").find("Ring          yes   1.00             2  costs more\n") != std::string::npos);
  CHECK(last_lines("spark-triangle") == "tuner: a cable between each two nodes: algorithms are NCCL's choice\n");
  CHECK(last_lines("switch16") == "tuner: a cable between each two nodes: algorithms are NCCL's choice\n");
  CHECK(last_lines("switch64").find("more nodes than") != std::string::npos);
  CHECK(last_lines("ring4-refused") == "tuner: relays are off: algorithms are NCCL's choice\n");
}

TEST_CASE("topo rules prints a line for each pair and device, and refuses what it cannot do") {
  std::ostringstream out, err;
  CHECK(topo_command({"rules", kScenarios + "line4.toml"}, out, err) == 0);
  CHECK(out.str().find("node0 -> node3     0  refused            LOST rocep1s0f0    LOST rocep1s0f0        LOST "
                       "rocep1s0f0        rocep1s0f0, 3 cables\n") != std::string::npos);
  // As the nodes are set: relays off, and a chain that is too long.
  std::ostringstream off;
  CHECK(topo_command({"rules", kScenarios + "ring4-refused.toml"}, off, err) == 0);
  CHECK(off.str().find("2 cables") == std::string::npos);
  std::ostringstream limited;
  CHECK(topo_command({"rules", kScenarios + "line4.toml", "--set", "environment.NCCL_MESH_MAX_HOPS=2"}, limited, err) ==
        1);
  CHECK(limited.str().find("2 cables") != std::string::npos);
  CHECK(limited.str().find("f0, 3 cables") == std::string::npos);
  CHECK_THROWS(topo_command({"rules", "--cablings", "7"}, out, err));
  CHECK_THROWS(topo_command({"rules", "--cablings", "4..3"}, out, err));
  CHECK_THROWS(topo_command({"rules", "--cablings", "3.."}, out, err));
  std::ostringstream some;
  CHECK(topo_command({"rules", "--cablings", "3..4"}, some, err) == 0);
  CHECK(some.str().find("2 nodes") == std::string::npos);
  CHECK(some.str().find("3 nodes, 51 cablings") != std::string::npos);
  CHECK(some.str().find("4 nodes, 513 cablings") != std::string::npos);
  CHECK(topo_command({"rules"}, out, err) == 2);
  CHECK(topo_command({"check", kScenarios + "line4.toml", "--cablings", "3"}, out, err) == 2);
}

}  // namespace topo_rules_test

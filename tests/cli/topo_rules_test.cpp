// Whose rules get a channel where: the ancestor's, NCCL's, ours.
#include <doctest/doctest.h>

#include <cstdlib>
#include <set>
#include <sstream>

#include "cli/command/commands.h"
#include "cli/scenario/scenario.h"
#include "cli/topo/report.h"
#include "cli/topo/rules.h"
#include "tests/support/walk.h"

namespace topo_rules_test {

using namespace meshbed::cli;
using meshbed::models::Aim;
using meshbed::models::RoutingRule;

namespace {

const std::string kScenarios = MESHBED_SOURCE_DIR "/scenarios/";

meshbed::models::Aimed aim(RoutingRule rule, const std::string& scenario, int from, int to, int device) {
  const auto cluster = read_scenario(kScenarios + scenario + ".toml", {}).cluster;
  return aim_of(rule, cluster, meshbed::models::analyse(cluster), from, to, device);
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

TEST_CASE("a triangle by NCCL 2.30.7's rules: device to device, by subnet, and by subnet with fused NICs") {
  // Trap 139 of the field reports: both channels go to the neighbour with which only one NIC shares a cable.
  CHECK(aim(RoutingRule::kNccl, "spark-triangle", 0, 1, 0).aim == Aim::kLost);
  CHECK(aim(RoutingRule::kNcclSubnetAware, "spark-triangle", 0, 1, 0).aim == Aim::kReached);
  CHECK(aim(RoutingRule::kNcclSubnetAware, "spark-triangle", 0, 1, 0).nic == 1);
  CHECK(aim(RoutingRule::kNcclSubnetAware, "spark-triangle", 0, 1, 1).aim == Aim::kLost);
  CHECK(aim(RoutingRule::kNcclSubnetAwareFused, "spark-triangle", 0, 1, 1).aim == Aim::kReached);
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

TEST_CASE("topo rules ends in what the tuner makes of the cabling") {
  const auto last_lines = [](const std::string& scenario) {
    std::ostringstream out, err;
    CHECK(topo_command({"rules", kScenarios + scenario + ".toml"}, out, err) == 0);
    return out.str().substr(out.str().rfind("\n\n") + 2);
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
        0);
  CHECK(limited.str().find("2 cables") != std::string::npos);
  CHECK(limited.str().find("3 cables") == std::string::npos);
  CHECK_THROWS(topo_command({"rules", "--cablings", "7"}, out, err));
  CHECK(topo_command({"rules"}, out, err) == 2);
  CHECK(topo_command({"check", kScenarios + "line4.toml", "--cablings", "3"}, out, err) == 2);
}

}  // namespace topo_rules_test

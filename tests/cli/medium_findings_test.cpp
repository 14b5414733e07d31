// Switches with a small MTU and VLANs: how a scenario says them, and what lint and topo check say of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "cli/command/commands.h"
#include "testbed/scenario/findings/findings.h"
#include "testbed/topology/report.h"

namespace medium_findings_test {

using namespace meshbed;
using namespace meshbed::testbed;

namespace {

using Lines = std::vector<std::string>;

Scenario make(const std::string& kind, int nodes, const Lines& overrides = {}) {
  return parse_scenario("[topology]\nkind = \"" + kind + "\"\nnodes = " + std::to_string(nodes) + "\n", "test.toml",
                        overrides);
}

std::string errors_of(const std::string& kind, const Lines& overrides) {
  try {
    (void)make(kind, 2, overrides);
  } catch (const ScenarioError& error) {
    return error.what();
  }
  return "";
}

int checked(const std::string& name, const Lines& overrides, std::string& output) {
  Lines arguments{"check", std::string(MESHBED_SOURCE_DIR) + "/scenarios/" + name + ".toml"};
  for (const std::string& one : overrides) {
    arguments.push_back("--set");
    arguments.push_back(one);
  }
  std::ostringstream out, err;
  const int status = topo_command(arguments, out, err);
  output = out.str() + err.str();
  return status;
}

constexpr const char* kSmallMtu =
    "warning: switch 'switch0': mtu = 1500 drops full RDMA packets of node0/rocep1s0f0, node1/rocep1s0f0 (active_mtu "
    "4096): "
    "small messages pass, longer ones end in \"transport retry counter exceeded\"; set the switch's mtu to 9000 or "
    "more (4192 for RDMA alone), or mtu of these NICs to 1500 [switch-mtu]";

}  // namespace

TEST_CASE("a switch's mtu, that of one of its ports and a NIC's VLAN are read") {
  const Scenario scenario = make(
      "switch", 3,
      {"switch.switch0.mtu=4200", "node.node1.nic.rocep1s0f0.switch_mtu=1500", "node.node2.nic.rocep1s0f0.vlan=7"});
  const models::Cluster& cluster = scenario.cluster;
  CHECK(cluster.switches[0].mtu_bytes == 4200);
  CHECK(cluster.nodes[0].nics[0].switch_mtu_bytes == 0);
  CHECK(cluster.nodes[1].nics[0].switch_mtu_bytes == 1500);
  CHECK(cluster.nodes[2].nics[0].vlan == 7);
  CHECK(cluster.nodes[0].nics[0].gids.size() == 4);
  REQUIRE(cluster.nodes[2].nics[0].gids.size() == 6);
  CHECK(cluster.nodes[2].nics[0].gids[5].vlan == 7);
  CHECK(cluster.nodes[2].nics[0].gids[1].vlan == 0);
  CHECK(make("switch", 2).cluster.switches[0].mtu_bytes == 0);
}

TEST_CASE("a listed GID table is that of the VLAN interface, where the NIC has one") {
  const Scenario scenario = make("ring", 2,
                                 {"node.node1.nic.rocep1s0f0.vlan=7",
                                  R"(node.node1.nic.rocep1s0f0.gids=[{index = 4, address = "192.168.100.2"}])"});
  REQUIRE(scenario.cluster.nodes[1].nics[0].gids.size() == 1);
  CHECK(scenario.cluster.nodes[1].nics[0].gids[0].vlan == 7);
}

TEST_CASE("a delay that no sum of times has room for is refused, as such latencies are") {
  const std::string fault = "fault=[{kind=\"delay\",target=\"node0-node1\",amount=\"100001s\"}]";
  CHECK(errors_of("ring", {fault}).find("amount: '100001s' is out of range; accepted: up to 100000s") !=
        std::string::npos);
  CHECK(errors_of("ring", {"limits.time=100000s"}).empty());
}

TEST_CASE("a switch_mtu without a switch, a VLAN's long name and numbers out of range are refused") {
  CHECK(errors_of("ring", {"node.node0.nic.rocep1s0f0.switch_mtu=1500"}) ==
        "--set node.node0.nic.rocep1s0f0.switch_mtu=1500: switch_mtu: node0/rocep1s0f0 is on no switch; list it in the "
        "ports of a [[switch]], or leave switch_mtu out (the NIC's own is mtu)");
  CHECK(errors_of("ring", {"node.node0.nic.rocep1s0f0.vlan=1000"}) ==
        "--set node.node0.nic.rocep1s0f0.vlan=1000: vlan: its interface 'enp1s0f0np0.1000' has a name longer than 15 "
        "characters, the most that Linux allows; give the NIC a shorter netdev, as \"eth0\"");
  CHECK(errors_of("ring", {"node.node0.nic.rocep1s0f0.vlan=1000", "node.node0.nic.rocep1s0f0.netdev=eth0"}).empty());
  CHECK(errors_of("ring", {"node.node0.nic.rocep1s0f0.vlan=4095"})
            .find("vlan: 4095 is out of range; accepted: 0 to "
                  "4094") != std::string::npos);
  CHECK(errors_of("switch", {"switch.switch0.mtu=100"}).find("mtu: 100 is out of range; accepted: 352 to 65535") !=
        std::string::npos);
}

TEST_CASE("lint names a switch that is too small for RDMA, or for TCP alone, with the NICs and the fix") {
  CHECK(finding_lines(make("switch", 2, {"switch.switch0.mtu=9000"})).empty());
  CHECK(finding_lines(make("switch", 2, {"switch.switch0.mtu=1500"})) == Lines{kSmallMtu});
  CHECK(finding_lines(make("switch", 2, {"switch.switch0.mtu=1500", "topology.mtu=1500"})).empty());
  CHECK(
      finding_lines(make("switch", 5, {"switch.switch0.mtu=4200"})) ==
      Lines{
          "warning: switch 'switch0': mtu = 4200 lets RDMA packets of 4096 bytes pass, and drops full TCP segments of "
          "node0/rocep1s0f0, node1/rocep1s0f0, node2/rocep1s0f0 and 2 other NICs; set the switch's mtu to 9000 or "
          "more, or mtu of these NICs to 4200 [switch-mtu]"});
  CHECK(
      finding_lines(make("switch", 3, {"node.node2.nic.rocep1s0f0.switch_mtu=1500"})) ==
      Lines{
          "warning: switch 'switch0': switch_mtu = 1500 drops full RDMA packets of node2/rocep1s0f0 (active_mtu 4096): "
          "small messages pass, longer ones end in \"transport retry counter exceeded\"; set switch_mtu to 9000 or "
          "more (4192 for RDMA alone), or mtu of these NICs to 1500 [switch-mtu]"});
}

TEST_CASE("lint names VLANs that keep the ends of a cable, or the ports of a subnet, apart") {
  const Lines cable = finding_lines(make("ring", 2, {"node.node1.nic.rocep1s0f0.vlan=100"}));
  CHECK(
      std::count(cable.begin(), cable.end(),
                 "warning: cable 'node0-node1': node0/rocep1s0f0 is in no VLAN, node1/rocep1s0f0 in VLAN 100, so that "
                 "no packet passes over it; give both ends the same vlan [cable-vlan]") == 1);
  for (const std::string& finding : cable) CHECK(finding.find("crossed-cable") == std::string::npos);
  CHECK(finding_lines(make("ring", 2, {"node.node0.nic.rocep1s0f0.vlan=100", "node.node1.nic.rocep1s0f0.vlan=100"}))
            .empty());
  const Lines box =
      finding_lines(make("switch", 4, {"node.node2.nic.rocep1s0f0.vlan=200", "node.node3.nic.rocep1s0f0.vlan=200"}));
  CHECK(std::count(box.begin(), box.end(),
                   "warning: switch 'switch0': subnet 192.168.100.0/24 is in no VLAN (node0/rocep1s0f0), VLAN 200 "
                   "(node2/rocep1s0f0); ports of different VLANs do not reach each other; give them the same vlan, or "
                   "each VLAN a subnet of its own [switch-vlan]") == 1);
}

TEST_CASE("topo check shows VLANs, and fails with what a switch or a VLAN does not let pass") {
  std::string output;
  CHECK(checked("switch-vlans", {}, output) == 0);
  CHECK_MESSAGE(output.find("node0  node1  rocep1s0f0  rocep1s0f0  192.168.100.0/24  100 Gb/s  leaf VLAN 100\n"
                            "              rocep1s0f1  rocep1s0f1  192.168.200.0/24  100 Gb/s  leaf VLAN 200\n") !=
                    std::string::npos,
                output);
  CHECK(output.find("Findings:") == std::string::npos);
  CHECK(checked("switch-small-mtu", {}, output) == 0);
  CHECK_MESSAGE(output.find("\nFindings:\n  " + std::string(kSmallMtu) + "\n") != std::string::npos, output);
  CHECK(checked("switch-small-mtu", {"switch.switch0.mtu=9000"}, output) == 0);
  CHECK(checked("pair", {"node.node1.nic.rocep1s0f0.vlan=100"}, output) == 1);
  CHECK_MESSAGE(output.find("Different VLANs: 1. Neither end takes the other's frames; give both ends of a cable the "
                            "same vlan.\n  node0-node1  node0/rocep1s0f0  no VLAN  node1/rocep1s0f0  VLAN 100\n") !=
                    std::string::npos,
                output);
  CHECK(output.find("Crossed cables") == std::string::npos);
}

}  // namespace medium_findings_test

// Routers in scenario files: what is read, what is refused, and what commands say of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "cli/command/commands.h"
#include "models/topology.h"
#include "testbed/render/render.h"
#include "testbed/scenario/findings/findings.h"
#include "testbed/scenario/scenario.h"
#include "testbed/topology/layout.h"
#include "testbed/topology/report.h"
#include "testbed/topology/rules.h"
#include "testbed/world/emulate.h"

namespace router_scenario_test {

using namespace meshbed;
using namespace meshbed::testbed;

namespace {

const std::string kFile = MESHBED_SOURCE_DIR "/scenarios/two-switches-routed.toml";

/// Four nodes of one NIC (lines 1 to 12), leaf0 (13 to 16) of two of them, leaf1 (17 to 20) of two more; `rest` from
/// line 21 on.
std::string text_of(const std::string& rest) {
  std::string text;
  for (int node = 0; node < 4; ++node) {
    text += "[[node]]\nname = \"n" + std::to_string(node) + "\"\nnic = [{device = \"mlx5_0\"}]\n";
  }
  for (int leaf = 0; leaf < 2; ++leaf) {
    const std::string first = std::to_string(2 * leaf), second = std::to_string(2 * leaf + 1);
    text += "[[switch]]\nname = \"leaf" + std::to_string(leaf) + "\"\nports = [\"n" + first + "/mlx5_0\", \"n" +
            second + "/mlx5_0\"]\nsubnet = \"10.1." + std::to_string(leaf) + ".0/24\"\n";
  }
  return text + rest;
}

constexpr const char* kRouter = "[[router]]\nname = \"spine\"\njoins = [\"leaf0\", \"leaf1\"]\n";

Scenario parse(const std::string& rest, const std::vector<std::string>& overrides = {}) {
  return parse_scenario(text_of(rest), "test.toml", overrides);
}

std::string errors_of(const std::string& rest, const std::vector<std::string>& overrides = {}) {
  try {
    (void)parse(rest, overrides);
  } catch (const ScenarioError& error) {
    return error.what();
  }
  return "";
}

const models::Nic& nic_of(const Scenario& scenario, std::size_t node) { return scenario.cluster.nodes[node].nics[0]; }

}  // namespace

TEST_CASE("a router joins switches, has the last free address of each subnet, and NICs have routes by way of it") {
  const Scenario scenario = parse(kRouter);
  REQUIRE(scenario.cluster.routers.size() == 1);
  const models::Router& router = scenario.cluster.routers[0];
  CHECK(router.name == "spine");
  CHECK(router.switches == std::vector<int>{0, 1});
  CHECK(router.rate_bps == 100'000'000'000);
  CHECK(router.latency_ps == 300'000);
  CHECK(router.propagation_ps == kPicosecondsPerMicrosecond);
  for (std::size_t node = 0; node < 4; ++node) {
    CHECK(nic_of(scenario, node).router == 0);
    REQUIRE(nic_of(scenario, node).routes.size() == 1);
    const models::GatewayRoute& route = nic_of(scenario, node).routes[0];
    CHECK(to_text(route.destination) == (node < 2 ? "10.1.1.0/24" : "10.1.0.0/24"));
    CHECK(to_text(route.gateway) == (node < 2 ? "10.1.0.254" : "10.1.1.254"));
  }
  const Scenario said =
      parse(kRouter, {"router.spine.rate=400Gb/s", "router.spine.latency=1us", "router.spine.cable_latency=2us",
                      "node.n1.nic.mlx5_0.gateway=none", "node.n2.nic.mlx5_0.gateway_table=policy",
                      R"(node.n0.nic.mlx5_0.addresses=["10.1.0.254/24"])"});
  CHECK(said.cluster.routers[0].rate_bps == 400'000'000'000);
  CHECK(said.cluster.routers[0].latency_ps == kPicosecondsPerMicrosecond);
  CHECK(said.cluster.routers[0].propagation_ps == 2 * kPicosecondsPerMicrosecond);
  CHECK(nic_of(said, 1).router == -1);
  CHECK(nic_of(said, 1).routes.empty());
  CHECK(nic_of(said, 2).policy_routed);
  CHECK(to_text(nic_of(said, 0).routes[0].gateway) == "10.1.0.253");  // .254 is taken
}

TEST_CASE("IPv6 has routes of its own, of those NICs that are in such a subnet") {
  std::string text = kRouter;
  const char* addresses[] = {"\"10.1.0.1/24\", \"fd00:1::1/64\"", "\"10.1.0.2/24\"", "\"10.1.1.1/24\"",
                             "\"10.1.1.9/24\", \"fd00:2::1/64\""};
  for (int node = 0; node < 4; ++node) {
    text += "[[node]]\nname = \"n" + std::to_string(node) + "\"\nnic = [{device = \"mlx5_0\", addresses = [" +
            addresses[node] + "]}]\n";
  }
  text += "[[switch]]\nname = \"leaf0\"\nports = [\"n0/mlx5_0\", \"n1/mlx5_0\"]\n";
  text += "[[switch]]\nname = \"leaf1\"\nports = [\"n2/mlx5_0\", \"n3/mlx5_0\"]\n";
  const Scenario scenario = parse_scenario(text, "test.toml", {});
  REQUIRE(nic_of(scenario, 0).routes.size() == 2);
  CHECK(to_text(nic_of(scenario, 0).routes[1].destination) == "fd00:2::/64");
  CHECK(nic_of(scenario, 1).routes.size() == 1);
  CHECK(nic_of(scenario, 3).routes.size() == 2);
  const models::Topology topology = models::analyse(scenario.cluster);
  CHECK(models::direct_paths(topology, 0, 3).size() == 2);  // one a family
  CHECK(models::direct_paths(topology, 0, 2).size() == 1);
}

TEST_CASE(
    "a router that joins nothing, or what is no switch, is refused with its place and the switches that there are") {
  CHECK(errors_of("[[router]]\nname = \"spine\"\n") ==
        "test.toml:21:1: joins: spine needs two switches or more, as in [\"switch0\", \"switch1\"]; each VLAN of one "
        "switch is a [[switch]]");
  CHECK(errors_of("[[router]]\njoins = [\"leaf0\", \"leaf7\"]\n") ==
        "test.toml:22:19: joins: there is no switch 'leaf7'; a router joins switches, and a NIC of its own is one on a "
        "switch with that port alone: leaf0, leaf1");
  CHECK(errors_of("[[router]]\njoins = [\"leaf0\", \"leaf0\"]\n") == "test.toml:22:19: joins: 'leaf0' is listed twice");
  CHECK(errors_of(std::string(kRouter) + kRouter) == "test.toml:25:8: name: two [[router]] are called 'spine'");
  CHECK(errors_of("[[router]]\nname = \"leaf1\"\njoins = [\"leaf0\", \"leaf1\"]\n") ==
        "test.toml:22:8: name: 'leaf1' is a switch");
  CHECK(errors_of("[[router]]\nname = \"none\"\njoins = [\"leaf0\", \"leaf1\"]\n") ==
        "test.toml:22:8: name: a NIC whose gateway is 'none' has none; take another name");
  CHECK(errors_of(kRouter, {"router.spin.rate=1Gb/s"}).find("there is no router 'spin' (did you mean 'spine'?)") !=
        std::string::npos);
}

TEST_CASE("a gateway that is no router, or joins another switch, is refused; so is one of several that is not named") {
  CHECK(errors_of(kRouter, {"node.n1.nic.mlx5_0.gateway=spin"})
            .find("gateway: there is no router 'spin' for n1/mlx5_0; there are: spine") != std::string::npos);
  CHECK(errors_of(kRouter, {"node.n1.nic.mlx5_0.vlan=100", "node.n1.nic.mlx5_0.gateway=spine"})
            .find("gateway: n1/mlx5_0 is in VLAN 100, and a router's ports are in none") != std::string::npos);
  CHECK(errors_of("", {"node.n1.nic.mlx5_0.gateway_table=policy"})
            .find("gateway_table: n1/mlx5_0 has no router as its gateway, so that it does nothing") !=
        std::string::npos);
  const std::string third =
      std::string(
          "[[node]]\nname = \"n4\"\nnic = [{device = \"mlx5_0\"}]\n[[switch]]\nname = \"leaf2\"\nports = "
          "[\"n4/mlx5_0\"]\nsubnet = \"10.1.2.0/24\"\n") +
      kRouter + "[[router]]\nname = \"border\"\njoins = [\"leaf1\", \"leaf2\"]\n";
  CHECK(errors_of(third, {"node.n0.nic.mlx5_0.gateway=border"})
            .find("gateway: n0/mlx5_0 is on none of the switches that border joins: leaf1, leaf2") !=
        std::string::npos);
  const std::string several = errors_of(third);
  CHECK(
      several.find("gateway: n2/mlx5_0 is on a switch that several routers join (spine, border): say which one is its "
                   "gateway, or \"none\"") != std::string::npos);
  CHECK(several.find("n0/mlx5_0") == std::string::npos);
  CHECK(errors_of(third, {"node.n2.nic.mlx5_0.gateway=spine", "node.n3.nic.mlx5_0.gateway=border"}).empty());
}

TEST_CASE("a switch of two subnets, or of one that has no room, cannot be joined") {
  CHECK(errors_of(kRouter, {R"(node.n1.nic.mlx5_0.addresses=["10.1.0.2/24", "10.7.0.1/24"])",
                            R"(switch.leaf0.subnet=10.0.0.0/8)"})
            .find("joins: leaf0 has two subnets, ") != std::string::npos);
  CHECK(errors_of(kRouter, {"switch.leaf0.subnet=10.1.0.0/31"})
            .find("joins: 10.1.0.0/31 of leaf0 has no address left for spine: take a shorter prefix") !=
        std::string::npos);
}

TEST_CASE("of several routers those are named that join the NIC's switch") {
  std::string text;
  for (int leaf = 2; leaf < 4; ++leaf) {
    const std::string number = std::to_string(leaf);
    text += "[[node]]\nname = \"n" + std::to_string(leaf + 2) +
            "\"\nnic = [{device = \"mlx5_0\"}]\n[[switch]]\nname = "
            "\"leaf" +
            number + "\"\nports = [\"n" + std::to_string(leaf + 2) + "/mlx5_0\"]\nsubnet = \"10.1." + number +
            ".0/24\"\n";
  }
  text += std::string(kRouter) +
          "[[router]]\nname = \"border\"\njoins = [\"leaf1\", \"leaf2\"]\n[[router]]\nname = "
          "\"edge\"\njoins = [\"leaf2\", \"leaf3\"]\n";
  const std::string errors = errors_of(text);
  CHECK(errors.find("n2/mlx5_0 is on a switch that several routers join (spine, border): say") != std::string::npos);
  CHECK(errors.find("n4/mlx5_0 is on a switch that several routers join (border, edge): say") != std::string::npos);
}

TEST_CASE("both addresses of a /31 are hosts: a NIC has one, its router the other") {
  const std::string text =
      "[[node]]\nname = \"a\"\nnic = [{device = \"mlx5_0\", addresses = [\"10.0.0.1/31\"]}]\n[[node]]\nname = "
      "\"b\"\nnic = [{device = \"mlx5_0\", addresses = [\"10.0.0.2/31\"]}]\n[[switch]]\nname = \"leaf0\"\nports = "
      "[\"a/mlx5_0\"]\n[[switch]]\nname = \"leaf1\"\nports = [\"b/mlx5_0\"]\n" +
      std::string(kRouter);
  const models::Cluster cluster = parse_scenario(text, "test.toml", {}).cluster;
  REQUIRE(cluster.nodes[0].nics[0].routes.size() == 1);
  CHECK(to_text(cluster.nodes[0].nics[0].routes[0].gateway) == "10.0.0.0");
  REQUIRE(cluster.nodes[1].nics[0].routes.size() == 1);
  CHECK(to_text(cluster.nodes[1].nics[0].routes[0].gateway) == "10.0.0.3");
}

TEST_CASE("lint: a switch between a NIC alone and the router that is too small for it") {
  const std::string text =
      "[[node]]\nname = \"a\"\nnic = [{device = \"mlx5_0\"}]\n[[node]]\nname = \"b\"\nnic = [{device = "
      "\"mlx5_0\"}]\n[[switch]]\nname = \"leaf0\"\nports = [\"a/mlx5_0\"]\nsubnet = \"10.1.0.0/24\"\nmtu = 1500\n"
      "[[switch]]\nname = \"leaf1\"\nports = [\"b/mlx5_0\"]\nsubnet = \"10.1.1.0/24\"\n" +
      std::string(kRouter);
  const std::vector<std::string> found = finding_lines(parse_scenario(text, "test.toml", {}));
  REQUIRE(found.size() == 1);
  CHECK(found[0].find("warning: switch 'leaf0': mtu = 1500 drops full RDMA packets of a/mlx5_0 (active_mtu 4096)") ==
        0);
}

TEST_CASE("no chain of relays goes over a router, and lint and topo check do not say so") {
  // a and b have a cable, b and c a router between them.
  const std::string text =
      "[[node]]\nname = \"a\"\nnic = [{device = \"mlx5_0\"}]\n[[node]]\nname = \"b\"\nnic = [{device = \"mlx5_0\"}, "
      "{device = \"mlx5_1\"}]\n[[node]]\nname = \"c\"\nnic = [{device = \"mlx5_0\"}]\n[[cable]]\nends = "
      "[\"a/mlx5_0\", \"b/mlx5_0\"]\nsubnet = \"10.2.0.0/24\"\n[[switch]]\nname = \"leaf0\"\nports = "
      "[\"b/mlx5_1\"]\nsubnet = \"10.1.0.0/24\"\n[[switch]]\nname = \"leaf1\"\nports = [\"c/mlx5_0\"]\nsubnet = "
      "\"10.1.1.0/24\"\n" +
      std::string(kRouter) + "[workload]\ncollective = \"alltoall\"\nbytes = \"3K\"\n";
  const Scenario scenario = parse_scenario(text, "test.toml", {});
  const models::Topology topology = models::analyse(scenario.cluster);
  CHECK(MeshRules(scenario.cluster, topology).aim(0, 2, 0).aim == models::Aim::kRefused);
  CHECK(models::shortest_path(topology, 0, 2).empty());
  CHECK(models::hop_counts(topology, 0) == std::vector<int>{0, 1, -1});
  CHECK(models::hop_counts(topology, 1) == std::vector<int>{1, 0, 1});
  CHECK(models::shortest_path(topology, 1, 2) == std::vector<int>{1, 2});
  CHECK(topology_report(scenario, false).find("not even by relay") != std::string::npos);
  const std::vector<std::string> found = finding_lines(scenario);
  CHECK(std::count_if(found.begin(), found.end(), [](const std::string& finding) {
          const std::string why = "no path for alltoall: no cable joins the two nodes, not even by relay";
          return finding.find("error: a to c: " + why) == 0 || finding.find("error: c to a: " + why) == 0;
        }) == 1);
}

TEST_CASE("lint: routes that the plugin does not see are a finding, and what follows from them") {
  CHECK(finding_lines(read_scenario(kFile, {})).empty());
  const std::vector<std::string> hidden =
      finding_lines(read_scenario(kFile, {"node.node0.nic.rocep1s0f0.gateway_table=policy"}));
  REQUIRE(hidden.size() >= 2);
  CHECK(std::count(hidden.begin(), hidden.end(),
                   "warning: node0/rocep1s0f0: its routes by way of spine are in a table of its own (gateway_table = "
                   "\"policy\"), which /proc/net/route does not show: nothing goes over it; set "
                   "NCCL_MESH_ALLOW_ROUTED=1 [hidden-route]") == 1);
  CHECK(finding_lines(read_scenario(kFile, {"node.node0.nic.rocep1s0f0.gateway_table=policy",
                                            "node.node0.environment.NCCL_MESH_ALLOW_ROUTED=1"}))
            .empty());
  const std::vector<std::string> off = finding_lines(read_scenario(kFile, {"environment.NCCL_MESH_ALLOW_ROUTED=0"}));
  CHECK(std::count(off.begin(), off.end(),
                   "warning: the cluster: not every node reaches every other, not even by relay [falls-apart]") == 1);
  const std::vector<std::string> in_vain = finding_lines(
      read_scenario(MESHBED_SOURCE_DIR "/scenarios/ring4.toml", {"environment.NCCL_MESH_ALLOW_ROUTED=1"}));
  CHECK(in_vain == std::vector<std::string>{"warning: environment: NCCL_MESH_ALLOW_ROUTED=1, and there is no "
                                            "[[router]]: each connection that needs relays first dials in vain "
                                            "[idle-variable]"});
}

TEST_CASE("topo check shows routed pairs, topo rules who takes them, and a picture the router") {
  const Scenario scenario = read_scenario(kFile, {});
  const std::string report = topology_report(scenario, false);
  CHECK_MESSAGE(report.find("4 nodes, 4 NICs, 0 cables, 2 switches, 1 router; shape: full mesh\n") != std::string::npos,
                report);
  CHECK(report.find("node0  node1  rocep1s0f0  rocep1s0f0  192.168.100.0/24  100 Gb/s  leaf0\n") != std::string::npos);
  CHECK(report.find("node0  node2  rocep1s0f0  rocep1s0f0  routed            100 Gb/s  spine\n") != std::string::npos);
  CHECK(report.find("Every pair has a direct path (6 pairs).\n") != std::string::npos);
  const std::string rules = text_of(rules_document(scenario));
  CHECK_MESSAGE(rules.find("node0 -> node2     0  refused            rocep1s0f0         rocep1s0f0             "
                           "rocep1s0f0             rocep1s0f0, routed\n") != std::string::npos,
                rules);
  CHECK(rules.find("stock NCCL reaches every neighbour on this cabling with its defaults\n") != std::string::npos);
  const std::string without = text_of(rules_document(read_scenario(kFile, {"environment.NCCL_MESH_ALLOW_ROUTED=0"})));
  CHECK(without.find(", routed") == std::string::npos);
  const std::string picture = topology_svg(scenario);
  CHECK(picture.find("4 nodes, 2 switches, 1 router: full mesh") != std::string::npos);
  CHECK(picture.find(">spine</text>") != std::string::npos);
  const Layout layout = lay_out(scenario.cluster, models::analyse(scenario.cluster));
  CHECK(layout.switches.size() == 3);
  CHECK(layout.uplinks.size() == 6);  // four NICs, two switches
  CHECK_FALSE(layout.switches[2].box.overlaps(layout.switches[0].box, 0));
}

TEST_CASE("topo rules: a peer without a way back is refused, whatever we see") {
  const auto cluster = read_scenario(kFile, {"node.node2.environment.NCCL_MESH_ALLOW_ROUTED=0"}).cluster;
  const models::Topology topology = models::analyse(cluster);
  const MeshRules rules(cluster, topology);
  CHECK(rules.aim(0, 3, 0).routed);
  CHECK(rules.aim(0, 2, 0).aim == models::Aim::kRefused);
  CHECK(rules.aim(2, 0, 0).aim == models::Aim::kRefused);
}

TEST_CASE("the emulated world refuses a router by its name") {
  const Scenario scenario = read_scenario(kFile, {});
  CHECK_THROWS_WITH(emulated_cluster(scenario, {}),
                    "--world emu: nothing there forwards between subnets, and two-switches-routed has the [[router]] "
                    "spine; run it with --world sim");
}

}  // namespace router_scenario_test

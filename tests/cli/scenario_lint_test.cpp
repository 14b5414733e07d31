#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "cli/command/commands.h"
#include "cli/command/lint.h"

namespace scenario_lint_test {

using namespace meshbed::cli;

namespace {

using Lines = std::vector<std::string>;

Lines findings_of(const std::string& topology, const std::vector<std::string>& overrides = {}) {
  return lint_findings(parse_scenario("[topology]\n" + topology, "test.toml", overrides));
}

constexpr const char* kTriangle = "kind = \"ring\"\nnodes = 3\n";
constexpr const char* kPair = "kind = \"ring\"\nnodes = 2\n";
const std::string kScenarios = std::string(MESHBED_SOURCE_DIR) + "/scenarios/";

}  // namespace

TEST_CASE("two swapped plugs are found on both cables, with where they belong") {
  const Lines findings = findings_of(kTriangle, {R"(cable.node0-node1.ends=["node0/rocep1s0f1", "node2/rocep1s0f0"])",
                                                 R"(cable.node1-node2.ends=["node1/rocep1s0f1", "node1/rocep1s0f0"])"});
  REQUIRE(findings.size() >= 2);
  CHECK(findings[0] ==
        "cable 'node0-node1' joins different subnets: node0/rocep1s0f1 is in 192.168.100.0/24, node2/rocep1s0f0 in "
        "192.168.101.0/24; nothing can pass over it");
  CHECK(findings[1].find("cable 'node1-node2' joins different subnets") == 0);
  const Lines ring = findings_of("kind = \"ring\"\nnodes = 4\n",
                                 {R"(cable.node0-node1.ends=["node0/rocep1s0f0", "node1/rocep1s0f0"])",
                                  R"(cable.node3-node0.ends=["node3/rocep1s0f1", "node0/rocep1s0f1"])"});
  REQUIRE(ring.size() >= 2);
  CHECK(ring[0].find("node0/rocep1s0f1 is in 192.168.100.0/24, too: are two plugs swapped?") != std::string::npos);
  CHECK(ring[1].find("node0/rocep1s0f0 is in 192.168.103.0/24, too: are two plugs swapped?") != std::string::npos);
}

TEST_CASE("ends that differ in MTU, rate or prefix length are findings") {
  CHECK(
      findings_of(kPair, {"node.node1.nic.rocep1s0f0.mtu=1500"}) ==
      Lines{"cable 'node0-node1': the MTU is 9000 at node0/rocep1s0f0 and 1500 at node1/rocep1s0f0; larger packets are "
            "lost"});
  CHECK(findings_of(kPair, {"node.node1.nic.rocep1s0f0.rate=25Gb/s"}) ==
        Lines{"cable 'node0-node1': node0/rocep1s0f0 runs at 100 Gb/s, node1/rocep1s0f0 at 25 Gb/s; the slower one "
              "counts"});
  CHECK(findings_of(kPair, {R"(node.node1.nic.rocep1s0f0.addresses=["192.168.100.2/16"])"}) ==
        Lines{"cable 'node0-node1': the subnets of 192.168.100.1/24 (node0/rocep1s0f0) and 192.168.100.2/16 "
              "(node1/rocep1s0f0) overlap, but have different prefix lengths; they must be equal"});
  // One finding for one mistake: that nothing passes is its consequence, and the cable is the right one.
  const Lines half_way = findings_of(kPair, {R"(node.node1.nic.rocep1s0f0.addresses=["192.168.100.130/25"])"});
  REQUIRE_FALSE(half_way.empty());
  for (const std::string& finding : half_way) CHECK(finding.find("joins different subnets") == std::string::npos);
  CHECK(half_way[0].find("only one end finds the other in its own, and nothing can pass over it") != std::string::npos);
}

TEST_CASE("variables that the plugin would warn of are findings, each once, unless another plugin reads them") {
  CHECK(findings_of(kTriangle, {"environment.NCCL_MESH_MAX_RELAY_HOPS=9"}) ==
        Lines{"environment: NCCL_MESH_MAX_RELAY_HOPS=9 is not a number from 0 to 8: using 8 (as NCCL_MESH_MAX_HOPS)"});
  CHECK(findings_of(kTriangle, {"environment.NCCL_MESH_RELAYS=0"}) ==
        Lines{"environment: NCCL_MESH_RELAYS is no variable of the mesh plugin; meshbed env lists them"});
  CHECK(findings_of(kTriangle, {R"(environment.NCCL_IB_HCA="rocep1s0f0,,rocep1s0f1")"}) ==
        Lines{"environment: NCCL_IB_HCA=rocep1s0f0,,rocep1s0f1: element 2 is empty, and left out"});
  CHECK(findings_of(kTriangle, {"environment.NCCL_MESH_RELAYS=0", "workload.net_plugin=libother.so"}).empty());
}

TEST_CASE("variables of NCCL's that do nothing here are findings, with what they would do, or what was meant") {
  const auto finding = [](const std::string& variable) {
    const Lines found = findings_of(kTriangle, {"environment." + variable});
    return found.size() == 1 ? found.front() : std::to_string(found.size()) + " findings";
  };
  CHECK(
      finding("NCCL_ALGO=Ring") ==
      "environment: NCCL_ALGO does nothing here; in NCCL it chooses NCCL's algorithms; here [workload] algorithm does");
  CHECK(finding("NCCL_MIN_NCHANNELS=4").find("[workload] channels is the number") != std::string::npos);
  CHECK(finding("NCCL_IB_GID_INDX=3") ==
        "environment: NCCL_IB_GID_INDX is read by nobody here; did you mean NCCL_IB_GID_INDEX?");
  CHECK(finding("NCCL_SOCKET_IFNAME=ib0")
            .find("environment: NCCL_SOCKET_IFNAME=ib0 fits no interface of node0, which "
                  "has mgmt0, enp1s0f0np0") == 0);
  for (const char* fine : {"NCCL_SOCKET_IFNAME==mgmt0", "NCCL_SOCKET_IFNAME=^docker", "NCCL_DEBUG=INFO", "PATH=/bin"}) {
    CHECK(finding(fine) == "0 findings");
  }
}

TEST_CASE("a pinned GID index that a port lacks is a finding, which says what the port has") {
  const std::string gids = R"(node.node1.nic.rocep1s0f0.gids=[{index = 4, address = "192.168.100.2"}])";
  CHECK(
      findings_of("kind = \"ring\"\nnodes = 2\nrails = 2\n", {gids, R"(environment.NCCL_IB_GID_INDEX="3")"}) ==
      Lines{"node1/rocep1s0f0 has no GID at NCCL_IB_GID_INDEX=3, and is not used; it has 4: leave the variable unset"});
  CHECK(findings_of(kPair, {R"(environment.NCCL_IB_GID_INDEX="3")"}).empty());
}

TEST_CASE("NICs that are down, without cable, without address or without a RoCE v2 GID are findings") {
  CHECK(findings_of(kTriangle, {"node.node1.nic.rocep1s0f0.link=down"}) ==
        Lines{"node1/rocep1s0f0 is down from the start"});
  CHECK(findings_of(std::string(kPair) + "nics = 1\n[[node]]\nname = \"node0\"\n[[node.nic]]\ndevice = \"x\"\n"
                                         "addresses = [\"172.16.0.1/24\"]\n") ==
        Lines{"node0/x has 172.16.0.1/24 but no cable"});
  const Lines bare = findings_of(kTriangle, {"node.node1.nic.rocep1s0f0.addresses=[]"});
  CHECK(std::count(bare.begin(), bare.end(),
                   "node1/rocep1s0f0 is cabled but has no address; only link-local is left") == 1);
  CHECK(findings_of(kPair, {R"(node.node1.nic.rocep1s0f0.gids=[{index=0, type="v1", address="192.168.100.2"}])"}) ==
        Lines{"node1/rocep1s0f0 has no RoCE v2 GID for 192.168.100.2; peers that expect one cannot connect"});
}

TEST_CASE("a switch's lonely port and mixed MTUs are findings") {
  const Lines findings =
      findings_of("kind = \"switch\"\nnodes = 3\n",
                  {R"(node.node1.nic.rocep1s0f0.addresses=["172.16.0.1/24"])", "node.node2.nic.rocep1s0f0.mtu=1500"});
  REQUIRE(findings.size() >= 2);
  CHECK(findings[0] == "switch 'switch0': its ports have 2 different MTUs");
  CHECK(findings[1] == "switch 'switch0': node1/rocep1s0f0 is alone in its subnet 172.16.0.0/24 there");
}

TEST_CASE("a workload over pairs that not even a relay joins is a finding unless its error is promised") {
  const std::string line = "kind = \"line\"\nnodes = 3\n";
  CHECK(findings_of(line).empty());
  const std::string off = "environment.NCCL_MESH_ENABLE_RELAY=0";
  const std::string ring = "workload.algorithm=ring";
  CHECK(findings_of(line, {ring, off}) ==
        Lines{"all_reduce sends from node2 to node0, which have no direct path, and relays are off "
              "(NCCL_MESH_ENABLE_RELAY=0); the run fails (promise it by expect.error)"});
  CHECK(findings_of(line, {ring, off, "expect.error=no path"}).empty());
  CHECK(findings_of(line, {ring, off, "workload.kind=idle"}).empty());
  CHECK(findings_of(line, {off}).empty());  // what is chosen can do with the cables
  CHECK(findings_of(line, {off, "workload.collective=alltoall"}).size() == 1);
  const Lines apart = findings_of(line, {"node.node1.nic.rocep1s0f0.link=down"});
  CHECK(std::count(apart.begin(), apart.end(),
                   "all_reduce sends from node0 to node1, which have no direct path, not even by relay; the run fails "
                   "(promise it by expect.error)") == 1);
}

TEST_CASE("a cluster that falls apart is a finding; a machine without ranks and cables is none") {
  const std::string laptop = "[[node]]\nname = \"laptop\"\n[[node.nic]]\ndevice = \"mlx5_0\"\n";
  const std::string apart = "the cluster falls apart: not every node reaches every other, not even by relay";
  const Lines with_rank = findings_of(kPair + laptop);
  CHECK(std::find(with_rank.begin(), with_rank.end(), apart) != with_rank.end());
  CHECK(findings_of(kPair + laptop + "[workload]\nnodes = 2\n").empty());
  // Such a machine may be the first one.
  const Lines first = findings_of("kind = \"line\"\nnodes = 3\n[workload]\nplacement = [\"node1\", \"node2\"]\n",
                                  {"node.node0.nic.rocep1s0f0.link=down"});
  CHECK(std::find(first.begin(), first.end(), apart) == first.end());
  // A node without ranks that hangs on the wrong cable is still one.
  CHECK(findings_of("kind = \"ring\"\nnodes = 4\n[workload]\nnodes = 2\n",
                    {"node.node0.nic.rocep1s0f0.link=down", "node.node0.nic.rocep1s0f1.link=down"})
            .size() >= 2);
}

TEST_CASE("a promise of no path between joined nodes is a finding") {
  CHECK(findings_of(kTriangle, {R"(expect.unreachable=[["node0", "node2"]])"}) ==
        Lines{"expect.unreachable: node0 and node2 do have a direct path, node0/rocep1s0f0 to node2/rocep1s0f1"});
}

TEST_CASE("a net plugin that is not there is a finding; one that the loader looks up is none") {
  CHECK(findings_of(kTriangle, {"workload.net_plugin=/nowhere/libnccl-net.so"}) ==
        Lines{"workload.net_plugin: there is no file '/nowhere/libnccl-net.so'; the run fails on every rank"});
  CHECK(findings_of(kTriangle, {"workload.net_plugin=mesh"}).empty());
}

TEST_CASE("lint: exit 0 for clean files, 1 for findings and errors; no file is wrong usage") {
  const auto lint = [](const Lines& arguments, std::string& output) {
    std::ostringstream out;
    std::ostringstream err;
    const int status = lint_command(arguments, out, err);
    output = out.str() + err.str();
    return status;
  };
  std::string output;
  CHECK(lint({kScenarios + "pair.toml", kScenarios + "ring4.toml"}, output) == 0);
  CHECK(output == kScenarios + "pair.toml: ok\n" + kScenarios + "ring4.toml: ok\n2 files, 0 findings\n");
  CHECK(lint({kScenarios + "pair.toml", "--set", "cable.node0-node1.rate=200Gb/s"}, output) == 1);
  CHECK(output.find("--set cable.node0-node1.rate=200Gb/s: rate: 200 Gb/s is more than its ports have (100 Gb/s)\n") ==
        0);
  CHECK(lint({"/no/such.toml", kScenarios + "pair.toml"}, output) == 1);
  CHECK(output.find("/no/such.toml: there is no such file\n") == 0);
  CHECK(output.find("2 files, 1 finding\n") != std::string::npos);
  CHECK_THROWS_WITH(lint({}, output), "lint: name at least one scenario file");
  CHECK(lint({"--help"}, output) == 0);
  CHECK(output.find("usage: meshbed lint") == 0);
  CHECK(lint({"--dictionary"}, output) == 0);
  CHECK(output == scenario_dictionary());
  CHECK_THROWS_AS(lint({"--bogus"}, output), std::exception);
}

TEST_CASE("env: NCCL_IB_HCA fits the port that the scenario gives a device") {
  const auto shown = [](const std::string& hca) {
    std::ostringstream out, err;
    const int status = env_command({"--scenario", MESHBED_SOURCE_DIR "/scenarios/pair.toml", "--set",
                                    "node.node0.nic.rocep1s0f0.port=2", "--set", "environment.NCCL_IB_HCA=" + hca},
                                   out, err);
    CHECK(status == 0);
    return out.str();
  };
  CHECK(shown("rocep1s0f0:2").find("lets in none") == std::string::npos);
  CHECK(shown("rocep1s0f0:3").find("lets in none of the ports that there are: rocep1s0f0:1, rocep1s0f0:2") !=
        std::string::npos);
}

}  // namespace scenario_lint_test

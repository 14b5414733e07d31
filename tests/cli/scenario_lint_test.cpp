#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "cli/command/commands.h"
#include "testbed/scenario/findings/findings.h"

namespace scenario_lint_test {

using namespace meshbed::testbed;

namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& topology, const std::vector<std::string>& overrides = {}) {
  return finding_lines(parse_scenario("[topology]\n" + topology, "test.toml", overrides));
}

constexpr const char* kTriangle = "kind = \"ring\"\nnodes = 3\n";
constexpr const char* kPair = "kind = \"ring\"\nnodes = 2\n";
const std::string kScenarios = std::string(MESHBED_SOURCE_DIR) + "/scenarios/";

}  // namespace

TEST_CASE("two swapped plugs are found on both cables, with where they belong") {
  const Lines findings = lines_of(kTriangle, {R"(cable.node0-node1.ends=["node0/rocep1s0f1", "node2/rocep1s0f0"])",
                                              R"(cable.node1-node2.ends=["node1/rocep1s0f1", "node1/rocep1s0f0"])"});
  REQUIRE(findings.size() >= 3);
  CHECK(findings[1] ==
        "warning: cable 'node0-node1': its ends are in different subnets (node0/rocep1s0f1: 192.168.100.0/24, "
        "node2/rocep1s0f0: 192.168.101.0/24), so that no packet passes over it; give both ends addresses of one "
        "subnet, or put the plug into the right port [crossed-cable]");
  CHECK(findings[2].find("warning: cable 'node1-node2': its ends are in different subnets") == 0);
  const Lines ring =
      lines_of("kind = \"ring\"\nnodes = 4\n", {R"(cable.node0-node1.ends=["node0/rocep1s0f0", "node1/rocep1s0f0"])",
                                                R"(cable.node3-node0.ends=["node3/rocep1s0f1", "node0/rocep1s0f1"])"});
  REQUIRE(ring.size() >= 3);
  CHECK(ring[1].find("node0/rocep1s0f1 is in 192.168.100.0/24, too: are two plugs swapped?") != std::string::npos);
  CHECK(ring[2].find("node0/rocep1s0f0 is in 192.168.103.0/24, too: are two plugs swapped?") != std::string::npos);
}

TEST_CASE("ends that differ in MTU, rate or prefix length are findings") {
  CHECK(
      lines_of(kPair, {"node.node1.nic.rocep1s0f0.mtu=1500"}) ==
      Lines{"warning: cable 'node0-node1': the MTU is 9000 at node0/rocep1s0f0 and 1500 at node1/rocep1s0f0: RDMA goes "
            "in packets of 1024 bytes, and larger IP packets than 1500 are dropped; give both ends the same MTU "
            "[cable-mtu]"});
  CHECK(lines_of(kPair, {"node.node1.nic.rocep1s0f0.rate=25Gb/s"}) ==
        Lines{"warning: cable 'node0-node1': node0/rocep1s0f0 runs at 100 Gb/s, node1/rocep1s0f0 at 25 Gb/s: the cable "
              "carries the lower rate [cable-rate]"});
  CHECK(lines_of(kPair, {R"(node.node1.nic.rocep1s0f0.addresses=["192.168.100.2/16"])"}) ==
        Lines{"warning: cable 'node0-node1': the subnets of 192.168.100.1/24 (node0/rocep1s0f0) and 192.168.100.2/16 "
              "(node1/rocep1s0f0) overlap, but have different prefix lengths; give both ends the same prefix length "
              "[wrong-prefix]"});
  // One finding for one mistake: that nothing passes is its consequence, and the cable is the right one.
  const Lines half_way = lines_of(kPair, {R"(node.node1.nic.rocep1s0f0.addresses=["192.168.100.130/25"])"});
  REQUIRE_FALSE(half_way.empty());
  for (const std::string& finding : half_way) CHECK(finding.find("crossed-cable") == std::string::npos);
  const auto wrong = std::find_if(half_way.begin(), half_way.end(), [](const std::string& line) {
    return line.find("only one end finds the other in its own, and no packet passes") != std::string::npos;
  });
  CHECK(wrong != half_way.end());
}

TEST_CASE("variables that the plugin would warn of are findings, each once, unless another plugin reads them") {
  CHECK(lines_of(kTriangle, {"environment.NCCL_MESH_MAX_RELAY_HOPS=9"}) ==
        Lines{"warning: environment: NCCL_MESH_MAX_RELAY_HOPS=9 is not a number from 0 to 8: using 8 (as "
              "NCCL_MESH_MAX_HOPS) [variable]"});
  CHECK(lines_of(kTriangle, {"environment.NCCL_MESH_RELAYS=0"}) ==
        Lines{"warning: environment: NCCL_MESH_RELAYS is not a variable of the mesh plugin; meshbed env lists them "
              "[unknown-variable]"});
  CHECK(lines_of(kTriangle, {R"(environment.NCCL_IB_HCA="rocep1s0f0,,rocep1s0f1")"}) ==
        Lines{"warning: environment: NCCL_IB_HCA=rocep1s0f0,,rocep1s0f1: element 2 is empty, and left out [variable]"});
  CHECK(lines_of(kTriangle, {"environment.NCCL_MESH_RELAYS=0", "workload.net_plugin=libother.so"}).empty());
}

TEST_CASE("variables of NCCL's that do nothing here are findings, with what they would do, or what was meant") {
  const auto finding = [](const std::string& variable) {
    const Lines found = lines_of(kTriangle, {"environment." + variable});
    return found.size() == 1 ? found.front() : std::to_string(found.size()) + " findings";
  };
  CHECK(finding("NCCL_ALGO=Ring") ==
        "warning: environment: NCCL_ALGO does nothing here; in NCCL it chooses NCCL's algorithms; here [workload] "
        "algorithm does [idle-variable]");
  CHECK(finding("NCCL_MIN_NCHANNELS=4").find("[workload] channels is the number") != std::string::npos);
  CHECK(finding("NCCL_IB_GID_INDX=3") ==
        "warning: environment: NCCL_IB_GID_INDX is not a variable of NCCL 2.30.7 or the plugin; did you mean "
        "NCCL_IB_GID_INDEX? [idle-variable]");
  CHECK(finding("NCCL_SOCKET_IFNAME=ib0")
            .find("warning: environment: NCCL_SOCKET_IFNAME=ib0 fits no interface of node0, which "
                  "has mgmt0, enp1s0f0np0") == 0);
  for (const char* fine : {"NCCL_SOCKET_IFNAME==mgmt0", "NCCL_SOCKET_IFNAME=^docker", "NCCL_DEBUG=INFO", "PATH=/bin"}) {
    CHECK(finding(fine) == "0 findings");
  }
}

TEST_CASE("a pinned GID index that a port lacks is a finding, which says what the port has") {
  const std::string gids = R"(node.node1.nic.rocep1s0f0.gids=[{index = 4, address = "192.168.100.2"}])";
  CHECK(lines_of("kind = \"ring\"\nnodes = 2\nrails = 2\n", {gids, R"(environment.NCCL_IB_GID_INDEX="3")"}) ==
        Lines{"warning: node1/rocep1s0f0: it has no GID at NCCL_IB_GID_INDEX=3, and is not used; it has 4; leave the "
              "variable unset [pinned-gid]"});
  CHECK(lines_of(kPair, {R"(environment.NCCL_IB_GID_INDEX="3")"}).empty());
}

TEST_CASE("a link-local address alone is a note where messages are striped over it, else a warning that says why not") {
  const char* two_cables = "kind = \"ring\"\nnodes = 2\nrails = 2\n";
  const std::vector<std::string> bare{"node.node0.nic.rocep1s0f1.addresses=[]",
                                      "node.node1.nic.rocep1s0f1.addresses=[]"};
  const auto lines_with = [&](const char* topology, std::vector<std::string> more) {
    more.insert(more.begin(), bare.begin(), bare.end());
    return lines_of(topology, more);
  };
  CHECK(lines_with(two_cables, {}) ==
        Lines{"note: 2 × node0/rocep1s0f1, node1/rocep1s0f1: it has no address: its link-local GID carries stripes of "
              "long messages beside the node's other cables [link-local-only]"});
  const auto has = [](const Lines& lines, const char* text) {
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.find(text) != std::string::npos; });
  };
  CHECK(has(lines_with(two_cables, {R"(environment.NCCL_IB_GID_INDEX="3")"}),
            "it is not used: NCCL_IB_GID_INDEX pins another GID; give both ends"));
  CHECK(
      has(lines_with(two_cables, {"node.node0.nic.rocep1s0f0.addresses=[]", "node.node1.nic.rocep1s0f0.addresses=[]"}),
          "it is not used: no cable with addresses joins the two nodes; give both ends"));
}

TEST_CASE("NICs that are down, without cable, without address or without a RoCE v2 GID are findings") {
  CHECK(lines_of(kTriangle, {"node.node1.nic.rocep1s0f0.link=down"}) ==
        Lines{"warning: node1/rocep1s0f0: it is down from the start [link-down]"});
  CHECK(lines_of(std::string(kPair) + "nics = 1\n[[node]]\nname = \"node0\"\n[[node.nic]]\ndevice = \"x\"\n"
                                      "addresses = [\"172.16.0.1/24\"]\n") ==
        Lines{"warning: node0/x: it has 172.16.0.1/24 but no cable [no-cable]"});
  const Lines bare = lines_of(kTriangle, {"node.node1.nic.rocep1s0f0.addresses=[]"});
  CHECK(std::count(bare.begin(), bare.end(),
                   "warning: node1/rocep1s0f0: it is cabled but has no address: only its link-local GID is left, and "
                   "it is not used: the other end has an address; give both ends of the cable addresses of one "
                   "subnet [link-local-only]") == 1);
  CHECK(
      lines_of(kPair, {R"(node.node1.nic.rocep1s0f0.gids=[{index=0, type="v1", address="192.168.100.2"}])"}) ==
      Lines{"warning: node1/rocep1s0f0: it has no RoCE v2 GID for 192.168.100.2: peers that expect one cannot connect "
            "[no-gid]"});
}

TEST_CASE("a switch's lonely port and mixed MTUs are findings") {
  const Lines findings =
      lines_of("kind = \"switch\"\nnodes = 3\n",
               {R"(node.node1.nic.rocep1s0f0.addresses=["172.16.0.1/24"])", "node.node2.nic.rocep1s0f0.mtu=1500"});
  CHECK(std::count(findings.begin(), findings.end(),
                   "warning: switch 'switch0': the NICs on it have 2 different MTUs, from 1500 to 9000: two of them "
                   "exchange packets of the lower one; give all NICs the same mtu [switch-mtus]") == 1);
  CHECK(std::count(findings.begin(), findings.end(),
                   "warning: node1/rocep1s0f0: it is alone in its subnet 172.16.0.0/24 on switch 'switch0'; give it an "
                   "address of the other ports' subnet [alone-in-subnet]") == 1);
}

TEST_CASE("a workload over pairs that not even a relay joins is a finding unless its error is promised") {
  const std::string line = "kind = \"line\"\nnodes = 3\n";
  CHECK(lines_of(line).empty());
  const std::string off = "environment.NCCL_MESH_ENABLE_RELAY=0";
  const std::string ring = "workload.algorithm=ring";
  CHECK(lines_of(line, {ring, off}) ==
        Lines{"error: node2 to node0: no path for all_reduce: no cable joins the two nodes, and relays are off "
              "(NCCL_MESH_ENABLE_RELAY=0); cable them, or promise the failure by expect.error [no-path]"});
  CHECK(lines_of(line, {ring, off, "expect.error=no path"}) ==
        Lines{"note: node2 to node0: no path for all_reduce: no cable joins the two nodes, and relays are off "
              "(NCCL_MESH_ENABLE_RELAY=0), as [expect] promises [no-path]"});
  CHECK(lines_of(line, {ring, off, "workload.kind=idle"}).empty());
  CHECK(lines_of(line, {off}).empty());  // what is chosen can do with the cables
  CHECK(lines_of(line, {off, "workload.collective=alltoall"}).size() == 1);
  const Lines apart = lines_of(line, {"node.node1.nic.rocep1s0f0.link=down"});
  CHECK(std::count(apart.begin(), apart.end(),
                   "error: node0 to node1: no path for all_reduce: no cable joins the two nodes, not even by relay; "
                   "cable them, or promise the failure by expect.error [no-path]") == 1);
}

TEST_CASE("a cluster that falls apart is a finding; a machine without ranks and cables is none") {
  const std::string laptop = "[[node]]\nname = \"laptop\"\n[[node.nic]]\ndevice = \"mlx5_0\"\n";
  const std::string apart = "warning: the cluster: not every node reaches every other, not even by relay [falls-apart]";
  const Lines with_rank = lines_of(kPair + laptop);
  CHECK(std::find(with_rank.begin(), with_rank.end(), apart) != with_rank.end());
  CHECK(lines_of(kPair + laptop + "[workload]\nnodes = 2\n").empty());
  // Such a machine may be the first one.
  const Lines first = lines_of("kind = \"line\"\nnodes = 3\n[workload]\nplacement = [\"node1\", \"node2\"]\n",
                               {"node.node0.nic.rocep1s0f0.link=down"});
  CHECK(std::find(first.begin(), first.end(), apart) == first.end());
  // A node without ranks that hangs on the wrong cable is still one.
  CHECK(lines_of("kind = \"ring\"\nnodes = 4\n[workload]\nnodes = 2\n",
                 {"node.node0.nic.rocep1s0f0.link=down", "node.node0.nic.rocep1s0f1.link=down"})
            .size() >= 2);
}

TEST_CASE("a promise of no path between joined nodes is a finding") {
  CHECK(lines_of(kTriangle, {R"(expect.unreachable=[["node0", "node2"]])"}) ==
        Lines{"error: expect.unreachable: node0 and node2 do have a direct path, node0/rocep1s0f0 to node2/rocep1s0f1; "
              "remove the pair [broken-promise]"});
}

TEST_CASE("a net plugin that is not there is a finding; one that the loader looks up is none") {
  CHECK(lines_of(kTriangle, {"workload.net_plugin=/nowhere/libnccl-net.so"}) ==
        Lines{"error: workload.net_plugin: /nowhere/libnccl-net.so: there is no such file; name a net plugin's file "
              "[net-plugin]"});
  CHECK(lines_of(kTriangle, {"workload.net_plugin=mesh"}).empty());
}

TEST_CASE("lint: exit 0 without errors, 1 for errors, 2 for a file that does not exist; no file is wrong usage") {
  const auto lint = [](const Lines& arguments, std::string& output) {
    std::ostringstream out;
    std::ostringstream err;
    const int status = lint_command(arguments, out, err);
    output = out.str() + err.str();
    return status;
  };
  std::string output;
  CHECK(lint({kScenarios + "pair.toml", kScenarios + "ring4.toml"}, output) == 0);
  CHECK(output ==
        kScenarios + "pair.toml: ok\n" + kScenarios + "ring4.toml: ok\n2 files, 0 errors, 0 warnings, 0 notes\n");
  CHECK(lint({kScenarios + "pair.toml", "--set", "cable.node0-node1.rate=200Gb/s"}, output) == 1);
  CHECK(output.find("--set cable.node0-node1.rate=200Gb/s: rate: 200 Gb/s is more than its ports have (100 Gb/s)\n") ==
        0);
  CHECK(lint({"/no/such.toml", kScenarios + "pair.toml"}, output) == 2);
  CHECK(output.find("/no/such.toml: there is no such file\n") == 0);
  CHECK(output.find("2 files, 1 error, 0 warnings, 0 notes\n") != std::string::npos);
  CHECK(lint({kScenarios}, output) == 2);
  CHECK_THROWS_WITH(lint({}, output), "lint: name at least one scenario file");
  CHECK(lint({"--help"}, output) == 0);
  CHECK(output.find("usage: meshbed lint") == 0);
  CHECK(lint({"--dictionary"}, output) == 0);
  CHECK(output == scenario_dictionary());
  CHECK_THROWS_AS(lint({"--bogus"}, output), std::exception);
  // Warnings are no errors.
  CHECK(lint({kScenarios + "pair.toml", "--set", "node.node1.nic.rocep1s0f0.mtu=1500"}, output) == 0);
  CHECK(output.find("1 file, 0 errors, 1 warning, 0 notes\n") != std::string::npos);
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
  CHECK(shown("rocep1s0f0:2").find("allows none") == std::string::npos);
  CHECK(shown("rocep1s0f0:3").find("allows none of the existing ports: rocep1s0f0:1, rocep1s0f0:2") !=
        std::string::npos);
}

}  // namespace scenario_lint_test

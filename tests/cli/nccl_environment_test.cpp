// What a node's environment leaves of its NICs: the models, the plugin's parsers and the commands agree.
#include "models/nccl_environment.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command/commands.h"
#include "plugin/base/hca_list.h"
#include "plugin/net/process/config.h"
#include "testbed/render/render.h"
#include "testbed/scenario/idle_variables.h"
#include "testbed/scenario/scenario.h"
#include "testbed/topology/report.h"
#include "testbed/topology/rules.h"
#include "testbed/topology/stock_nccl.h"

namespace nccl_environment_test {

using namespace meshbed::testbed;
namespace models = meshbed::models;
namespace net = meshbed::net;

namespace {

const std::string kScenarios = MESHBED_SOURCE_DIR "/scenarios/";
using Settings = std::vector<std::string>;

models::Cluster one_node(const std::string& name, const std::string& value, std::uint8_t port = 1) {
  models::Node node;
  for (const char* device : {"rocep1s0f0", "rocep1s0f1", "roceP2p1s0f0", "mlx5_1", "mlx5_10"}) {
    models::Nic nic;
    nic.device = device;
    nic.netdev = std::string("net") + device;
    nic.port = port;
    nic.addresses.push_back({});
    nic.gids = {{.index = 0}, {.index = 3}};
    node.nics.push_back(nic);
  }
  node.environment = {{name, value}};
  models::Cluster cluster;
  cluster.nodes.push_back(node);
  return cluster;
}

nlohmann::json rules_of(const std::string& file, const Settings& overrides) {
  std::vector<std::string> all{"rules", kScenarios + file, "--json"};
  for (const std::string& one : overrides) all.insert(all.end(), {"--set", one});
  std::ostringstream out, err;
  CHECK(topo_command(all, out, err) <= 1);  // 1: a finding is an error
  return nlohmann::json::parse(out.str());
}

/// "reached/channels" of one rule between neighbours.
std::string share(const nlohmann::json& report, const std::string& rule) {
  for (const auto& one : report.at("rules")) {
    if (one.at("rule") == rule) return one.at("reached").dump() + "/" + one.at("channels").dump();
  }
  return "";
}

std::string advice(const std::string& file, const Settings& overrides) {
  document::Document rules = rules_document(read_scenario(kScenarios + file, overrides));
  rules.sections.pop_back();  // the findings
  const std::string text = text_of(rules);
  return text.substr(text.rfind("\n\n") + 2);
}

}  // namespace

TEST_CASE("the models and the plugin read NCCL_IB_HCA and NCCL_IB_GID_INDEX alike, malformed values too") {
  for (const char* list : {"",
                           "rocep1s0f0",
                           "=rocep1s0f0",
                           "^rocep1s0f0",
                           "^=rocep1s0f0",
                           "roce",
                           "^roce",
                           "=mlx5_1",
                           "mlx5_1",
                           "mlx5_1:1",
                           "mlx5_1:2",
                           "=mlx5_1:2:4",
                           "^mlx5_1:2",
                           " mlx5_1 , rocep1s0f1",
                           ",",
                           "^",
                           "=",
                           "^,",
                           "a:x",
                           ":1",
                           "mlx5_1:999",
                           "rocep1s0f0,,rocep1s0f1",
                           "mlx5_1::3:4"}) {
    for (const int port : {1, 2}) {
      const models::Cluster cluster = one_node("NCCL_IB_HCA", list, static_cast<std::uint8_t>(port));
      const net::Setting setting =
          net::evaluate(net::kVariables[static_cast<std::size_t>(net::Variable::kIbHca)], list);
      for (int nic = 0; nic < 5; ++nic) {
        CAPTURE(std::string(list));
        CAPTURE(nic);
        CHECK(models::hca_lets_in(cluster, {0, nic}) ==
              meshbed::hca_allowed(setting.text, cluster.nodes[0].nics[static_cast<std::size_t>(nic)].device, port));
      }
    }
  }
  for (const char* index :
       {"", "0", "3", "03", "0x3", " 3", "3 ", "-1", "1", "256", "x", "3x", "99999999999999999999"}) {
    const models::Cluster cluster = one_node("NCCL_IB_GID_INDEX", index);
    const std::int64_t pinned =
        net::evaluate(net::kVariables[static_cast<std::size_t>(net::Variable::kIbGidIndex)], index).number;
    CAPTURE(std::string(index));
    CHECK(models::has_pinned_gid(cluster, {0, 0}) == (pinned < 0 || pinned == 0 || pinned == 3));
  }
}

TEST_CASE("what the environment leaves out is down in use, and keeps its place") {
  models::Cluster cluster = one_node("NCCL_IB_HCA", "^rocep1s0f0");
  const models::Cluster used = models::in_use(cluster);
  CHECK_FALSE(used.nodes[0].nics[0].link_up);
  CHECK(used.nodes[0].nics[1].link_up);
  REQUIRE(models::left_out_nics(cluster).size() == 1);
  CHECK(models::left_out_nics(cluster)[0].setting == "NCCL_IB_HCA=^rocep1s0f0");
  cluster.nodes[0].environment = {{"NCCL_IB_GID_INDEX", "1"}};
  CHECK(models::left_out_nics(cluster).size() == 5);
}

TEST_CASE("every rule of topo rules honours NCCL_IB_HCA: prefix, ^, = and port; the ancestor does not read it") {
  struct Case {
    const char* list;
    const char* reached;  // of NCCL's subnet-aware rule and of Mesh
  };
  // A ring's cables run from f0 to the next node's f1.
  for (const Case& one : {Case{"=rocep1s0f0", "0/8"},
                          {"^rocep1s0f1", "0/8"},
                          {"rocep1s0f0:1", "0/8"},
                          {"rocep1s0f0:2", "0/8"},
                          {"rocep1", "16/16"},
                          {"=rocep1s0", "0/8"},
                          {"^mlx5", "16/16"}}) {
    CAPTURE(std::string(one.list));
    const auto report = rules_of("ring4.toml", {std::string("environment.NCCL_IB_HCA=") + one.list});
    CHECK(share(report, "mesh") == one.reached);
    CHECK(share(report, "nccl-subnet-aware") == one.reached);
    CHECK(share(report, "nccl-subnet-aware-fused") == one.reached);
  }
  const auto report = rules_of("ring4.toml", {"environment.NCCL_IB_HCA==rocep1s0f0"});
  CHECK(share(report, "ancestor") == "8/8");
  CHECK(share(report, "nccl") == "0/8");
  REQUIRE(report.at("environment").size() == 2);
  CHECK(report.at("environment")[0] == "NCCL_IB_HCA==rocep1s0f0 leaves out rocep1s0f1 of node0, node1, node2, node3");
  CHECK(report.at("settings_without")[0] == "NCCL_IB_HCA");
}

TEST_CASE("a node's own environment counts for that node alone") {
  const auto report = rules_of("ring4.toml", {"node.node1.environment.NCCL_IB_HCA==rocep1s0f0"});
  // Its cable to one neighbour is gone, in both directions; Mesh goes round by relays.
  CHECK(share(report, "nccl-subnet-aware") != "16/16");
  CHECK(share(report, "mesh") == "14/14");
  CHECK(report.at("environment")[0] == "NCCL_IB_HCA==rocep1s0f0 leaves out rocep1s0f1 of node1");
}

TEST_CASE("NCCL_IB_SUBNET_AWARE_ROUTING and NCCL_IB_MERGE_NICS hold in each of NCCL's rules") {
  const Settings aware{"environment.NCCL_IB_SUBNET_AWARE_ROUTING=1"};
  CHECK(share(rules_of("ring4.toml", {}), "nccl") != "16/16");
  CHECK(share(rules_of("ring4.toml", aware), "nccl") == "16/16");
  CHECK(share(rules_of("ring4.toml", {"environment.NCCL_IB_SUBNET_AWARE_ROUTING=0"}), "nccl-subnet-aware") ==
        share(rules_of("ring4.toml", {}), "nccl"));
  CHECK(share(rules_of("spark-triangle.toml", {"environment.NCCL_IB_MERGE_NICS=1"}), "nccl-subnet-aware") ==
        share(rules_of("spark-triangle.toml", {}), "nccl-subnet-aware-fused"));
  // Out of 1 to 32: connect() is refused (connect.cc 527-531 of v2.30.7-1).
  CHECK(share(rules_of("ring4.toml", {aware[0], "environment.NCCL_IB_SUBNET_PREFIX_LEN=64"}), "nccl") == "0/16");
}

TEST_CASE("an NCCL_SOCKET_IFNAME that leaves a node no interface leaves every rule without a start there") {
  const auto report = rules_of("ring4.toml", {"environment.NCCL_SOCKET_IFNAME=ib0"});
  for (const char* rule : {"ancestor", "nccl", "nccl-subnet-aware", "nccl-subnet-aware-fused", "mesh"}) {
    CAPTURE(rule);
    CHECK(share(report, rule).rfind("0/", 0) == 0);
  }
  CHECK(report.at("settings_without")[0] == "NCCL_SOCKET_IFNAME");
  CHECK(share(rules_of("ring4.toml", {"environment.NCCL_SOCKET_IFNAME=mgmt"}), "mesh") == "16/16");
}

TEST_CASE("the advice for stock NCCL never contradicts what the environment sets") {
  CHECK(
      advice("spark-triangle.toml", {"environment.NCCL_IB_SUBNET_AWARE_ROUTING=1"}) ==
      "stock NCCL reaches every neighbour on this cabling with NCCL_IB_SUBNET_AWARE_ROUTING=1 as the environment sets "
      "it\n");
  CHECK(advice("spark-triangle.toml", {"environment.NCCL_IB_SUBNET_AWARE_ROUTING=0"}) ==
        "stock NCCL does not reach every neighbour with NCCL_IB_SUBNET_AWARE_ROUTING=0, as the environment sets it.\n"
        "Without NCCL_IB_SUBNET_AWARE_ROUTING it reaches every neighbour on this cabling with "
        "NCCL_IB_SUBNET_AWARE_ROUTING=1\n");
  const std::string hca = advice("ring4.toml", {"environment.NCCL_IB_HCA==rocep1s0f0"});
  CHECK(hca.find("Without NCCL_IB_HCA it reaches every neighbour on this cabling with "
                 "NCCL_IB_SUBNET_AWARE_ROUTING=1\n") != std::string::npos);
}

TEST_CASE("a ring of NCCL's needs more than NCCL_ALGO=Ring: trees are connected at init unless cuMem is on") {
  const std::string stock = advice("ring4.toml", {});
  CHECK(stock.find("NCCL_ALGO=Ring with ranks in the order node0 - node1 - node2 - node3\n") != std::string::npos);
  CHECK(stock.find("NCCL_CUMEM_ENABLE=0") != std::string::npos);
  CHECK(stock.find("init.cc 1552-1568") != std::string::npos);
  const std::string off = advice("ring4.toml", {"environment.NCCL_CUMEM_ENABLE=0"});
  CHECK(off.find("It fails at init: with NCCL_CUMEM_ENABLE=0 NCCL connects trees between such nodes") !=
        std::string::npos);
  CHECK(advice("ring4.toml", {"environment.NCCL_ALGO=Tree"}).find("The environment sets NCCL_ALGO=Tree") !=
        std::string::npos);
  // A line has no ring.
  CHECK(advice("line4.toml", {}).find("no ring of cables joins all nodes: no algorithm of NCCL's works") !=
        std::string::npos);
}

TEST_CASE("topo rules counts the channels of many nodes, and refuses more than it goes through in a minute") {
  const auto torus = [](const char* shape) {
    return parse_scenario(std::string("[topology]\nkind = \"torus\"\nshape = ") + shape + "\n", "torus.toml", {});
  };
  const std::string text = text_of(rules_document(torus("[4, 4, 8]")));
  CHECK(text.find("Channels of more than 64 nodes are counted, not listed.\n") != std::string::npos);
  CHECK(text.find("4608 of 4608      0        0  92928 of 92928\n") != std::string::npos);
  CHECK_THROWS_WITH_AS(rules_document(torus("[10, 10, 10]")),
                       doctest::Contains("not above 577 nodes with 6 NICs each, and there are 1000 nodes"),
                       std::runtime_error);
}

TEST_CASE("topo check knows the NICs that the environment leaves out") {
  const std::string text =
      topology_report(read_scenario(kScenarios + "ring4.toml", {"environment.NCCL_IB_HCA==rocep1s0f0"}), false);
  CHECK(text.find("environment: NCCL_IB_HCA==rocep1s0f0 leaves out rocep1s0f1 of node0, node1, node2, node3\n") !=
        std::string::npos);
  CHECK(text.find("Without a direct path: 6 of 6 pairs.") != std::string::npos);
}

TEST_CASE("variables of NCCL's that its source has are known, and a slip gets the likely name") {
  CHECK(idle_variable_note("NCCL_CUMEM_ENABLE").find("NCCL_CUMEM_ENABLE does nothing here; in NCCL it turns") == 0);
  CHECK(idle_variable_note("NCCL_IGNORE_CPU_AFFINITY").find("does nothing here; in NCCL it lets") != std::string::npos);
  CHECK(idle_variable_note("NCCL_SYM_CTAS") == "NCCL_SYM_CTAS does nothing here; it is NCCL's own");
  CHECK(idle_variable_note("NCCL_CUMEM_ENABEL").find("did you mean NCCL_CUMEM_ENABLE?") != std::string::npos);
  CHECK(idle_variable_note("NCCL_QUITE_ELSE").find("did you mean") == std::string::npos);
  CHECK(idle_variable_note("NCCL_IB_HCA").empty());
}

TEST_CASE("NCCL_NET and NCCL_NET_PLUGIN that keep NCCL from the plugin are said") {
  CHECK(bypass_note("NCCL_NET", "IB").find("NCCL_NET=IB makes NCCL use the transport of that name") == 0);
  for (const char* fine : {"Mesh", "mesh", "MESH", ""}) CHECK(bypass_note("NCCL_NET", fine).empty());
  CHECK(bypass_note("NCCL_NET_PLUGIN", "none").find("load no plugin") != std::string::npos);
  CHECK(bypass_note("NCCL_NET_PLUGIN", "aws").find("load another plugin") != std::string::npos);
  for (const char* fine : {"mesh", "/opt/x/libnccl-net-mesh.so", "aws,mesh"}) {
    CHECK(bypass_note("NCCL_NET_PLUGIN", fine).empty());
  }
}

TEST_CASE("an NCCL_SOCKET_IFNAME that leaves only cables' interfaces is said") {
  const auto notes = [](const std::string& list) {
    return idle_variable_notes(read_scenario(kScenarios + "ring4.toml", {"environment.NCCL_SOCKET_IFNAME=" + list}));
  };
  REQUIRE(notes("^mgmt").size() == 1);
  CHECK(notes("^mgmt")[0].find("NCCL_SOCKET_IFNAME=^mgmt leaves out mgmt0 of node0, and only cables' interfaces are "
                               "left (enp1s0f0np0, enp1s0f1np1)") == 0);
  CHECK(notes("enp1s0f0np0").size() == 1);
  CHECK(notes("mgmt0,enp1s0f0np0").empty());
  CHECK(notes("^docker").empty());
}

}  // namespace nccl_environment_test

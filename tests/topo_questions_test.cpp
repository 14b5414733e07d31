// topo why, cuts, env and diff: what they say, as values, and that the runs which they name show it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "testbed/render/render.h"
#include "testbed/topology/questions.h"
#include "tests/support/command.h"

namespace topo_questions_test {

using namespace meshbed::testbed;
using namespace meshbed::test;
using Json = nlohmann::ordered_json;

namespace {

const std::string kScenarios = std::string(MESHBED_SOURCE_DIR) + "/scenarios/";

Scenario read(const std::string& name, const std::vector<std::string>& overrides = {}) {
  return read_scenario(kScenarios + name + ".toml", overrides);
}

Json why(const Scenario& scenario, int from, int to) { return document::json_of(why_document(scenario, from, to)); }

std::set<std::string> codes_of(const Json& answer) {
  std::set<std::string> codes;
  for (const Json& way : answer.at("ways")) codes.insert(way.at("code").get<std::string>());
  return codes;
}

/// Runs "meshbed run ..." as it is printed; its results go to a folder of the test's.
CommandResult shown(const std::string& command) {
  REQUIRE(command.rfind("meshbed run ", 0) == 0);
  return run_command_line(
      fmt::format("{} {} --results '{}' 2>&1", meshbed_program(), command.substr(8), scratch_folder("topo-shown")));
}

/// The only command of an answer that does not need NVIDIA's library.
std::string own_command(const Json& answer) {
  for (const Json& command : answer.at("commands")) {
    if (command.get<std::string>().rfind("meshbed run ", 0) == 0) return command;
  }
  return "";
}

}  // namespace

TEST_CASE("topo why: a cable, a chain of relays, and for NCCL no cable") {
  const Json near = why(read("ring4"), 0, 1);
  CHECK(near.at("mesh_reaches") == true);
  CHECK(near.at("mesh_code") == "direct");
  CHECK(codes_of(near) == std::set<std::string>{"direct", "other-node"});
  CHECK(near.at("nccl_reaches") == false);
  CHECK(near.at("nccl_code") == "subnet");
  const Json aware = why(read("ring4", {"environment.NCCL_IB_SUBNET_AWARE_ROUTING=1"}), 0, 1);
  CHECK(aware.at("nccl_reaches") == true);
  const Json far = why(read("ring4"), 0, 2);
  CHECK(far.at("mesh_code") == "relayed");
  CHECK(far.at("mesh_cables") == 2);
  CHECK(codes_of(far) == std::set<std::string>{"other-node"});
  CHECK(far.at("nccl_code") == "no-cable");
  CHECK(own_command(far).empty());
  REQUIRE(far.at("commands").size() == 1);
  CHECK(far.at("commands")[0].get<std::string>().rfind("meshbed nccl run ", 0) == 0);
}

TEST_CASE("topo why: each no names its cause, and its run shows it") {
  struct Case {
    Scenario scenario;
    int from, to;
    std::string mesh_code, way_code;
  };
  const std::vector<Case> cases{
      {read("ring4-refused"), 0, 2, "relays-off", "other-node"},
      {read("crossed-cable"), 0, 1, "crossed-cable", "crossed-cable"},
      {read("line4", {"environment.NCCL_MESH_MAX_RELAY_HOPS=2"}), 0, 3, "relay-limit", "other-node"},
      {read("line4", {"node.node1.nic.rocep1s0f0.link=down"}), 0, 3, "no-device", "peer-down"},
      {read("line4", {"node.node2.nic.rocep1s0f0.link=down"}), 0, 3, "no-path", "other-node"},
      {read("ring4", {"environment.NCCL_IB_HCA=rocep1s0f0", "environment.NCCL_MESH_ENABLE_RELAY=0"}), 0, 1, "no-path",
       "filtered"},
  };
  for (const Case& one : cases) {
    const Json answer = why(one.scenario, one.from, one.to);
    CAPTURE(answer.dump());
    CHECK(answer.at("mesh_reaches") == false);
    CHECK(answer.at("mesh_code") == one.mesh_code);
    CHECK(codes_of(answer).contains(one.way_code));
    const std::string command = own_command(answer);
    REQUIRE(!command.empty());
    const CommandResult run = shown(command);
    CHECK_MESSAGE(run.status == 0, command, "\n", run.output);
    CHECK(run.output.find("ok     an error with") != std::string::npos);
  }
}

TEST_CASE("topo cuts: each cable and each inner node of a line, none of a ring; the runs show it") {
  const Json ring = document::json_of(cuts_document(read("ring4")));
  CHECK(ring.at("partition") == 0);
  CHECK(ring.at("whole") == true);
  CHECK(ring.at("looked_at") == 16);
  const Json line = document::json_of(cuts_document(read("line4")));
  std::set<std::string> lost;
  for (const Json& cut : line.at("cuts"))
    lost.insert(cut.at("kind").get<std::string>() + " " + cut.at("name").get<std::string>());
  CHECK(lost == std::set<std::string>{"cable node0-node1", "cable node1-node2", "cable node2-node3",
                                      "nic node0/rocep1s0f0", "nic node1/rocep1s0f0", "nic node1/rocep1s0f1",
                                      "nic node2/rocep1s0f0", "nic node2/rocep1s0f1", "nic node3/rocep1s0f0",
                                      "node node1", "node node2"});
  for (const Json& cut : line.at("cuts")) {
    if (cut.at("name") == "node1-node2") CHECK(cut.at("parts") == "node0, node1 | node2, node3");
    const std::string command = cut.at("command");
    const CommandResult run = shown(command);
    CHECK_MESSAGE(run.status == 0, command, "\n", run.output);
  }
  const Json star = document::json_of(cuts_document(read("star5")));
  CHECK(star.at("partition") == 13);
  // Switch and hop limit: a ring of five whose chains may have two cables ends with any one cable.
  const Json tight = document::json_of(cuts_document(read("ring4", {"environment.NCCL_MESH_MAX_RELAY_HOPS=2"})));
  CHECK(tight.at("partition") == 12);
  CHECK(tight.at("cuts")[0].at("why") == "out-of-reach");
  const CommandResult run = shown(tight.at("cuts")[0].at("command"));
  CHECK_MESSAGE(run.status == 0, run.output);
}

TEST_CASE("topo env: the fewest variables, each needed and with its place in NCCL's source") {
  const auto advice = [](const std::string& name, const std::vector<std::string>& overrides = {}) {
    return document::json_of(environment_document(read(name, overrides)));
  };
  const Json pair = advice("pair");
  CHECK(pair.at("works") == true);
  CHECK(pair.at("set").empty());
  const Json triangle = advice("spark-triangle");
  CHECK(triangle.at("works") == true);
  CHECK(triangle.at("set") == Json::array({"NCCL_IB_SUBNET_AWARE_ROUTING=1"}));
  const Json ring = advice("ring4", {"environment.NCCL_CUMEM_ENABLE=0"});
  CHECK(ring.at("set") == Json::array({"NCCL_IB_SUBNET_AWARE_ROUTING=1", "NCCL_ALGO=Ring"}));
  CHECK(ring.at("remove") == Json::array({"NCCL_CUMEM_ENABLE"}));
  CHECK(ring.at("ring") == "node0 - node1 - node2 - node3");
  const Json line = advice("line4");
  CHECK(line.at("works") == false);
  CHECK(line.at("set").empty());
  CHECK(line.at("why_not").get<std::string>().find("no ring of cables joins all nodes") != std::string::npos);
  for (const Json& one : {triangle, ring, line}) {
    CHECK(!one.at("claims").empty());
    for (const Json& claim : one.at("claims")) {
      const std::string source = claim.at("source");
      CHECK_MESSAGE(source.rfind("NCCL v2.30.7-1 src/", 0) == 0, source);
      CHECK_MESSAGE(source.find(".cc ") != std::string::npos, source);
      CHECK(!claim.at("without").get<std::string>().empty());
    }
  }
}

TEST_CASE("topo diff: nothing of equal scenarios; of others what changed, and what that does") {
  const Json same = document::json_of(difference_document(read("ring4"), read("ring4")));
  CHECK(same.at("differences") == 0);
  CHECK(same.at("reach").empty());
  CHECK(same.at("findings").empty());
  const Json cut = document::json_of(difference_document(
      read("ring4"), read("ring4", {"node.node0.nic.rocep1s0f1.link=down", "node.node0.nic.rocep1s0f0.rate=50Gb/s",
                                    "environment.NCCL_MESH_ENABLE_RELAY=0"})));
  std::set<std::string> changed;
  for (const Json& change : cut.at("changes")) {
    changed.insert(change.at("place").get<std::string>() + ": " + change.at("what").get<std::string>());
  }
  CHECK(changed.contains("NIC node0/rocep1s0f1: link"));
  CHECK(changed.contains("NIC node0/rocep1s0f0: rate"));
  CHECK(changed.contains("node node2: environment NCCL_MESH_ENABLE_RELAY"));
  bool is_lost = false;
  for (const Json& pair : cut.at("reach")) {
    if (pair.at("who") != "mesh" || pair.at("from") != "node0" || pair.at("to") != "node1") continue;
    is_lost = pair.at("old") == "direct" && pair.at("new") == "not";
    const CommandResult run = shown(pair.at("command"));
    CHECK_MESSAGE(run.status == 0, run.output);
  }
  CHECK(is_lost);
  CHECK(cut.at("new_bound_us").get<double>() > cut.at("old_bound_us").get<double>());
  bool came = false;
  for (const Json& finding : cut.at("findings")) came = came || finding.at("change") == "came";
  CHECK(came);
}

TEST_CASE("topo: the command reads its words, and says what is wrong with them") {
  const auto topo = [](const std::string& words) {
    return run_command_line(meshbed_program() + " topo " + words + " 2>&1");
  };
  const std::string ring = kScenarios + "ring4.toml";
  CHECK(topo("why node0 node2 " + ring).output.find("Mesh: reached, relayed: through node1: 2 cables") !=
        std::string::npos);
  CHECK(Json::parse(topo("why node0 node2 " + ring + " --json").output).at("from") == "node0");
  CHECK(topo("diff " + ring + " --set node.node0.nic.rocep1s0f1.link=down").output.find("link-down") !=
        std::string::npos);
  CHECK(topo("why node0 nodf2 " + ring).output.find("did you mean node2?") != std::string::npos);
  CHECK(topo("wyh node0 node2 " + ring).output.find("did you mean why?") != std::string::npos);
  for (const char* wrong : {"why", "why node0 node1", "cuts", "env a b", "diff", "diff a", "cuts x --all"}) {
    CHECK_MESSAGE(topo(wrong).status == 2, wrong);
  }
  CHECK(topo("why node0 node0 " + ring).output.find("is one node; name two") != std::string::npos);
}

}  // namespace topo_questions_test

// Findings: each code has a scenario that leads to it, and all commands print the same ones.
#include "testbed/scenario/findings/findings.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command/commands.h"
#include "testbed/base/files.h"
#include "testbed/render/render.h"
#include "testbed/result/tables.h"
#include "testbed/topology/report.h"

namespace findings_test {

using namespace meshbed::testbed;

namespace {

using Lines = std::vector<std::string>;

const std::string kScenarios = std::string(MESHBED_SOURCE_DIR) + "/scenarios/";
const std::string kPair = "[topology]\nkind = \"ring\"\nnodes = 2\n";
const std::string kTriangle = "[topology]\nkind = \"ring\"\nnodes = 3\n";
const std::string kSwitch = "[topology]\nkind = \"switch\"\nnodes = 4\n";

/// A scenario as text, or a file of scenarios/, with a mistake in it.
struct Example {
  FindingCode code;
  Severity severity;
  std::string scenario;
  Lines overrides;
};

const std::vector<Example>& examples() {
  static const std::vector<Example> all{
      {FindingCode::kScenario, Severity::kError, kPair, {"workload.bites=1M"}},
      {FindingCode::kAssumed, Severity::kNote, kPair, {"assumed=[\"rate of node0: 100Gb/s; which rate has it?\"]"}},
      {FindingCode::kCrossedCable,
       Severity::kWarning,
       "[topology]\nkind = \"ring\"\nnodes = 2\nrails = 2\n",
       {"node.node1.nic.rocep1s0f0.addresses=[\"172.16.9.1/24\"]"}},
      {FindingCode::kWrongPrefix,
       Severity::kWarning,
       kPair,
       {"node.node1.nic.rocep1s0f0.addresses=[\"192.168.100.2/16\"]"}},
      {FindingCode::kCableVlan, Severity::kWarning, kPair, {"node.node1.nic.rocep1s0f0.vlan=100"}},
      {FindingCode::kCableMtu, Severity::kWarning, kPair, {"node.node1.nic.rocep1s0f0.mtu=1500"}},
      {FindingCode::kCableRate, Severity::kWarning, kPair, {"node.node1.nic.rocep1s0f0.rate=25Gb/s"}},
      {FindingCode::kSwitchVlan, Severity::kWarning, kSwitch, {"node.node3.nic.rocep1s0f0.vlan=200"}},
      {FindingCode::kSwitchMtu, Severity::kWarning, kSwitch, {"switch.switch0.mtu=1500"}},
      {FindingCode::kSwitchMtus, Severity::kWarning, kSwitch, {"node.node2.nic.rocep1s0f0.mtu=1500"}},
      {FindingCode::kAloneInSubnet,
       Severity::kWarning,
       kSwitch,
       {"node.node1.nic.rocep1s0f0.addresses=[\"172.16.0.1/24\"]"}},
      {FindingCode::kLinkLocalOnly, Severity::kWarning, kTriangle, {"node.node1.nic.rocep1s0f0.addresses=[]"}},
      {FindingCode::kNoCable,
       Severity::kWarning,
       kPair + "nics = 1\n[[node]]\nname = \"node0\"\n[[node.nic]]\ndevice = \"x\"\n"
               "addresses = [\"172.16.0.1/24\"]\n",
       {}},
      {FindingCode::kLinkDown, Severity::kWarning, kTriangle, {"node.node1.nic.rocep1s0f0.link=down"}},
      {FindingCode::kNoGid,
       Severity::kWarning,
       kPair,
       {"node.node1.nic.rocep1s0f0.gids=[{index=0, type=\"v1\", address=\"192.168.100.2\"}]"}},
      {FindingCode::kPinnedGid, Severity::kWarning, kPair, {"environment.NCCL_IB_GID_INDEX=7"}},
      {FindingCode::kNarrowPcie, Severity::kNote, kPair + "rate = \"200Gb/s\"\n", {"topology.gpu_model=GB10"}},
      {FindingCode::kHiddenRoute,
       Severity::kWarning,
       "two-switches-routed",
       {"node.node0.nic.rocep1s0f0.gateway_table=policy"}},
      {FindingCode::kFallsApart,
       Severity::kWarning,
       kPair + "[[node]]\nname = \"laptop\"\n[[node.nic]]\ndevice = \"mlx5_0\"\n",
       {}},
      {FindingCode::kNoPath,
       Severity::kError,
       "[topology]\nkind = \"line\"\nnodes = 3\n",
       {"workload.algorithm=ring", "environment.NCCL_MESH_ENABLE_RELAY=0"}},
      {FindingCode::kNoPath, Severity::kNote, "ring4-refused", {}},
      {FindingCode::kNetPlugin, Severity::kError, kPair, {"workload.net_plugin=/nowhere/libnccl-net.so"}},
      {FindingCode::kNetPlugin, Severity::kError, kPair, {"workload.net_plugin=/dev/zero"}},
      {FindingCode::kRecording, Severity::kError, "nccl-calls-triangle-all-reduce", {"topology.nodes=4"}},
      {FindingCode::kVariable, Severity::kWarning, kPair, {"environment.NCCL_MESH_MAX_RELAY_HOPS=9"}},
      {FindingCode::kUnknownVariable, Severity::kWarning, kPair, {"environment.NCCL_MESH_RELAYS=0"}},
      {FindingCode::kIdleVariable, Severity::kWarning, kPair, {"environment.NCCL_ALGO=Ring"}},
      {FindingCode::kIdleGpus,
       Severity::kNote,
       kPair,
       {"topology.gpu_model=H100", "topology.gpus=2", "workload.ranks_per_node=1"}},
      {FindingCode::kBrokenPromise, Severity::kError, kTriangle, {"expect.unreachable=[[\"node0\", \"node2\"]]"}},
      {FindingCode::kRingSlots, Severity::kError, "megakernel-ring8-gpu", {"workload.megakernel.slots=20"}},
      {FindingCode::kNotResident, Severity::kNote, "megakernel-oversubscribed", {}},
  };
  return all;
}

std::vector<Finding> found_in(const Example& example) {
  try {
    if (example.scenario.front() == '[') {
      return findings_of(parse_scenario(example.scenario, "test.toml", example.overrides));
    }
    return findings_of(read_scenario(kScenarios + example.scenario + ".toml", example.overrides));
  } catch (const ScenarioError& error) {
    return findings_of(error.problems());
  }
}

int called(int (*command)(const Arguments&, std::ostream&, std::ostream&), const Lines& words, std::string& output) {
  std::ostringstream out, err;
  const int status = command(words, out, err);
  output = out.str() + err.str();
  return status;
}

}  // namespace

TEST_CASE("each code has an example that leads to it, with a severity of its table") {
  for (const FindingInfo& info : finding_infos()) {
    CAPTURE(info.name);
    CHECK(std::any_of(examples().begin(), examples().end(),
                      [&](const Example& example) { return example.code == info.code; }));
  }
  for (const Example& example : examples()) {
    CAPTURE(name_of(example.code));
    const std::vector<Finding> findings = found_in(example);
    CHECK(std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
      return finding.code == example.code && finding.severity == example.severity && !finding.place.empty() &&
             !finding.cause.empty();
    }));
    for (const Finding& finding : findings) {
      const FindingInfo& info = finding_infos()[static_cast<std::size_t>(finding.code)];
      CHECK(std::string(info.severities).find(name_of(finding.severity)) != std::string::npos);
    }
  }
}

TEST_CASE("docs/reference/findings.md has the table of all codes (meshbed lint --checks)") {
  const std::string page = read_text_file(std::string(MESHBED_SOURCE_DIR) + "/docs/reference/findings.md");
  CHECK(page.find("\n" + finding_table() + "\n") != std::string::npos);
}

TEST_CASE("equal findings of several places are one line, and errors come first") {
  const auto findings = findings_of(parse_scenario(
      kTriangle + "rate = \"200Gb/s\"\n", "test.toml",
      {"topology.gpu_model=GB10", "expect.unreachable=[[\"node0\", \"node1\"]]", "environment.NCCL_ALGO=Ring"}));
  const Lines lines = finding_lines(findings);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].find("error: expect.unreachable: ") == 0);
  CHECK(lines[1].find("warning: environment: NCCL_ALGO ") == 0);
  CHECK(lines[2].find("note: 6 × node0/rocep1s0f0, node0/roceP2p1s0f1, node1/rocep1s0f0 and 3 others: ") == 0);
  const auto json = json_of(document::finding_rows(findings));
  REQUIRE(json.size() == 3);
  CHECK(json[2].at("code") == "narrow-pcie");
  CHECK(json[2].at("severity") == "note");
  CHECK(json[2].at("count") == 6);
  CHECK(json[2].at("places").size() == 6);
  for (const char* key : {"place", "cause", "fix"}) CHECK(json[0].at(key).is_string());
}

TEST_CASE("an address in a foreign subnet on one of two cables, and an MTU at one end, are said by lint and topo") {
  const std::string rails = kScenarios + "pair-dual-rail.toml";
  for (const auto& [set, code] : {std::pair{"node.node1.nic.rocep1s0f0.addresses=[\"172.16.9.1/24\"]", "crossed-cable"},
                                  std::pair{"node.node1.nic.rocep1s0f0.mtu=1500", "cable-mtu"}}) {
    CAPTURE(set);
    const std::string mark = "[" + std::string(code) + "]";
    std::string output;
    CHECK(called(lint_command, {rails, "--set", set}, output) == 0);
    CHECK(output.find(mark) != std::string::npos);
    CHECK(called(topo_command, {"check", rails, "--set", set}, output) == 0);
    CHECK(output.find(mark) != std::string::npos);
    CHECK(called(topo_command, {"rules", rails, "--set", set}, output) == 0);
    CHECK(output.find(mark) != std::string::npos);
  }
}

TEST_CASE("lint --json lists findings by file, and what the reader refuses") {
  std::string output;
  CHECK(called(lint_command, {"--json", kScenarios + "pair.toml", "--set", "environment.NCCL_ALGO=Ring"}, output) == 0);
  const auto json = nlohmann::json::parse(output);
  REQUIRE(json.at("files").size() == 1);
  CHECK(json.at("files")[0].at("findings").at(0).at("code") == "idle-variable");
  CHECK(called(lint_command, {"--json", kScenarios + "pair.toml", "--set", "workload.bites=1"}, output) == 1);
  CHECK(nlohmann::json::parse(output).at("files")[0].at("findings").at(0).at("place") == "--set workload.bites=1");
}

TEST_CASE("a port without an address is on no crossed cable") {
  const Scenario scenario =
      parse_scenario("[topology]\nkind = \"ring\"\nnodes = 2\nrails = 2\n", "test.toml",
                     {"node.node0.nic.rocep1s0f0.addresses=[]", "node.node1.nic.rocep1s0f0.addresses=[]"});
  for (const std::string& line : finding_lines(scenario)) {
    CHECK_MESSAGE(line.find("crossed-cable") == std::string::npos, line);
    CHECK_MESSAGE(line.find("no packet passes") == std::string::npos, line);
  }
  CHECK(topology_report(scenario, false).find("Crossed cables") == std::string::npos);
}

TEST_CASE("keys of 50,000 parts are refused, in the file and by --set") {
  std::string key = "a";
  for (int part = 1; part < 50'000; ++part) key += ".a";
  for (const std::string& text : {key + " = 1\n", "[" + key + "]\n", "[[" + key + "]]\n", "x = {" + key + " = 1}\n",
                                  kPair + "# a comment\n[workload]\n" + key + " = \"x\"\n"}) {
    try {
      (void)parse_scenario(text, "test.toml", {});
      FAIL_CHECK("accepted");
    } catch (const ScenarioError& error) {
      CHECK(std::string(error.what()).find("a key has more than 32 parts") != std::string::npos);
      CHECK(std::string(error.what()).size() < 200);
    }
  }
  for (const std::string& argument : {key + "=1", "workload.bytes={" + key + "=1}"}) {
    try {
      (void)parse_scenario(kPair, "test.toml", {argument});
      FAIL_CHECK("accepted");
    } catch (const ScenarioError& error) {
      CHECK(std::string(error.what()).size() < 1000);
    }
  }
  CHECK_NOTHROW(parse_scenario("# 1.2.3.4 " + key + "\ndescription = \"" + key + "\"\n" + kPair, "t.toml", {}));
}

TEST_CASE("devices, folders and what does not exist are refused as input in bounded time and memory") {
  const auto refusal = [](const std::string& path) {
    try {
      (void)read_text_file(path);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(refusal("/dev/zero") == "cannot read /dev/zero: not a file: a device or pipe may have no end");
  CHECK(refusal("/tmp") == "cannot read /tmp: it is a folder");
  CHECK(refusal("/no/such") == "cannot read /no/such: No such file or directory");
  std::string output;
  for (const char* path : {"/dev/zero", "/tmp", "/no/such.toml"}) {
    CHECK(called(lint_command, {path}, output) == 2);
    CHECK_THROWS_AS(called(topo_command, {"check", path}, output), ScenarioError);
  }
  for (const char* key : {"workload.tuning", "models.profile"}) {
    for (const char* path : {"/dev/zero", "/tmp"}) {
      CHECK(called(lint_command, {kScenarios + "pair.toml", "--set", std::string(key) + "=" + path}, output) == 1);
    }
  }
}

TEST_CASE("a link that comes up later is a path: no error, but the note that it is down") {
  const std::string late = kPair + "[[fault]]\nkind = \"port_up\"\ntarget = \"node1/rocep1s0f0\"\nat = \"1s\"\n";
  const auto codes = [&](const std::string& text) {
    std::vector<FindingCode> found;
    for (const Finding& finding :
         findings_of(parse_scenario(text, "late.toml", {"node.node1.nic.rocep1s0f0.link=down"}))) {
      found.push_back(finding.code);
    }
    return found;
  };
  const auto has = [](const std::vector<FindingCode>& found, FindingCode code) {
    return std::find(found.begin(), found.end(), code) != found.end();
  };
  CHECK(has(codes(kPair), FindingCode::kNoPath));
  CHECK_FALSE(has(codes(late), FindingCode::kNoPath));
  CHECK(has(codes(late), FindingCode::kLinkDown));
}

}  // namespace findings_test

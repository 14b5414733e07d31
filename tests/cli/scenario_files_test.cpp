// The files in scenarios/: each reads, is clean, and is what the issue that asked for it says it is.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "models/topology.h"
#include "testbed/scenario/findings/findings.h"
#include "testbed/scenario/placement.h"
#include "testbed/scenario/scenario.h"
#include "testbed/world/simulate.h"

namespace scenario_files_test {

using namespace meshbed::testbed;

namespace {

const std::filesystem::path kFolder = std::filesystem::path(MESHBED_SOURCE_DIR) / "scenarios";

std::vector<std::string> scenario_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Scenario read(const std::string& name) { return read_scenario((kFolder / (name + ".toml")).string(), {}); }

}  // namespace

TEST_CASE("every scenario file reads, begins with a comment, says what it is and promises something") {
  const auto files = scenario_files();
  CHECK(files.size() >= 18);
  for (const auto& file : files) {
    CAPTURE(file);
    const Scenario scenario = read_scenario(file, {});
    CHECK(text_of(file).rfind("# ", 0) == 0);
    CHECK_FALSE(scenario.description.empty());
    const Expect& expect = scenario.expect;
    CHECK((expect.wrong || expect.error || expect.watchdog || !expect.unreachable.empty()));
    // Some show what a mistake does; lint finds it.
    const std::set<std::string> mistakes{"crossed-cable",       "megakernel-oversubscribed", "mtu-mismatch",
                                         "spark-triangle-200g", "switch-small-mtu",          "wrong-prefix"};
    if (mistakes.count(std::filesystem::path(file).stem().string()) == 1) {
      CHECK_FALSE(finding_lines(scenario).empty());
    } else {
      for (const Finding& finding : findings_of(scenario)) {
        CHECK_MESSAGE(finding.severity == Severity::kNote, finding.place, ": ", finding.cause);
      }
    }
  }
}

TEST_CASE("scenarios/README.md is the reader's dictionary (meshbed lint --dictionary > scenarios/README.md)") {
  CHECK(text_of(kFolder / "README.md") == scenario_dictionary());
}

TEST_CASE("spark-triangle: three nodes, two NICs each, each cable its own /24, 100 Gb/s, 64 MiB") {
  const Scenario scenario = read("spark-triangle");
  std::set<std::string> subnets;
  for (const auto& node : scenario.cluster.nodes) {
    REQUIRE(node.nics.size() == 2);
    for (const auto& nic : node.nics) subnets.insert(meshbed::subnet_text(nic.addresses.at(0)));
  }
  CHECK(subnets == std::set<std::string>{"192.168.100.0/24", "192.168.101.0/24", "192.168.102.0/24"});
  for (const auto& cable : scenario.cluster.cables) CHECK(cable.rate_bps == 100'000'000'000);
  CHECK(scenario.workload.bytes == 64 * meshbed::kMiB);
  CHECK(scenario.workload.algorithm == "auto");  // what is chosen where the file says nothing
  CHECK(scenario.expect.wrong == 0);
  CHECK(scenario.expect.max_over_bound == 1.03);
  CHECK(read("spark-triangle-200g").cluster.cables.at(0).rate_bps == 200'000'000'000);
}

TEST_CASE("ring4, line4, pair, pair-dual-rail, switch16 and switch64 have their shapes") {
  const auto shape = [](const std::string& name) {
    const auto cluster = read(name).cluster;
    return meshbed::models::describe(meshbed::models::classify(meshbed::models::analyse(cluster)),
                                     cluster.nodes.size());
  };
  CHECK(shape("ring4") == "ring");
  CHECK(shape("line4") == "line");
  CHECK(shape("pair") == "full mesh, line");
  CHECK(read("pair").cluster.cables.size() == 1);
  CHECK(shape("pair-dual-rail") == "full mesh, line");
  CHECK(read("pair-dual-rail").cluster.cables.size() == 2);
  CHECK(shape("switch16") == "full mesh");
  CHECK(read("switch64").cluster.nodes.size() == 64);
  CHECK(read("ring4-refused").expect.error == "no path");
}

TEST_CASE("the relayed shapes do not time the making of their connections") {
  for (const char* name : {"line4", "star5", "partial5", "ring4-diagonal", "ring4-alltoall"}) {
    CAPTURE(name);
    CHECK(read(name).workload.warmup >= 1);
  }
}

TEST_CASE("triangle-two-channels: one channel a device, and node1 counts its devices backwards") {
  const Scenario scenario = read("triangle-two-channels");
  CHECK(scenario.workload.channel_devices == std::vector<int>{0, 1});
  CHECK(scenario.cluster.nodes[0].nics[0].device == "rocep1s0f0");
  CHECK(scenario.cluster.nodes[1].nics[0].device == "rocep1s0f1");
}

TEST_CASE("each recording is there, fits its cluster and is under 1 MiB") {
  int recordings = 0;
  for (const auto& file : scenario_files()) {
    const Scenario scenario = read_scenario(file, {});
    if (scenario.workload.kind != WorkloadKind::kNcclCalls) continue;
    ++recordings;
    CAPTURE(file);
    CHECK(std::filesystem::file_size(path_beside(scenario, scenario.workload.recording)) < meshbed::kMiB);
    std::ifstream recording(path_beside(scenario, scenario.workload.recording));
    std::string meta;
    std::getline(recording, meta);
    CHECK(meta.find("\"ranks\": " + std::to_string(ranks_of(scenario))) != std::string::npos);
    if (scenario.workload.other_devices) continue;
    CHECK(meta.find("\"net_devices_per_node\": " + std::to_string(scenario.cluster.nodes[0].nics.size())) !=
          std::string::npos);
  }
  CHECK(recordings == 17);
}

}  // namespace scenario_files_test

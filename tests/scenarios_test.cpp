// A scenario keeps its word: every file in scenarios/ runs and meets its [expect].
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/walk.h"

namespace scenarios_test {

using namespace meshbed::test;

namespace {

nlohmann::json run_scenario(const std::string& name, int& status, const std::string& options = "") {
  const std::string results = scratch_folder("scenarios");
  const CommandResult result = run_command_line(meshbed_program() + " run " + scenario_file(name) +
                                                " --no-trace --json --results '" + results + "' " + options);
  status = result.status;
  return nlohmann::json::parse(result.output);
}

}  // namespace

TEST_CASE("every scenario runs, keeps its proofs and meets its expectations; the fabrics agree within 2 %") {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(MESHBED_SOURCE_DIR) + "/scenarios")) {
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  REQUIRE(names.size() >= 7);
  const std::vector<std::string> on_both = walk(names, 6);
  for (const std::string& name : names) {
    CAPTURE(name);
    int status = -1;
    const nlohmann::json summary = run_scenario(name, status);
    CHECK(status == 0);
    CHECK(summary.at("scenario") == name);
    for (const char* list : {"proofs", "expected"}) {
      for (const auto& item : summary.at(list)) CHECK_MESSAGE(item.at("ok") == true, item.dump());
    }
    if (std::find(on_both.begin(), on_both.end(), name) == on_both.end()) continue;
    const CommandResult lint =
        run_command_line(meshbed_program() + " lint " + scenario_file(name) + " --set fabric.kind=fluid 2>&1");
    if (lint.output.find("a switch of several boxes has one for each flow") != std::string::npos) {
      MESSAGE("skipped on the fluid fabric, which refuses switches of several boxes: ", name);
      continue;
    }
    const double chunk_ns = summary.at("time_ns");
    const double fluid_ns = run_scenario(name, status, "--fabric fluid").at("time_ns");
    CHECK(std::abs(chunk_ns - fluid_ns) <= 0.02 * fluid_ns);
  }
}

TEST_CASE(
    "NCCL's alltoall on a ring of four that has lost a cable: its ends are three cables apart, and all is right") {
  int status = -1;
  const nlohmann::json summary =
      run_scenario("nccl-calls-ring4-alltoall", status,
                   "--set node.node0.nic.rocep1s0f0.link=down --set node.node3.nic.rocep1s0f1.link=down");
  CHECK(status == 0);
  for (const auto& item : summary.at("proofs")) CHECK_MESSAGE(item.at("ok") == true, item.dump());
  for (const auto& pair : summary.at("pairs")) CHECK(pair.at("subnet") != "192.168.103.0/24");
}

TEST_CASE(
    "a small all-reduce on a switch is faster by any other algorithm than round the ring, and auto takes the best") {
  const auto time_ns = [](const std::string& algorithm) {
    int status = -1;
    const nlohmann::json summary = run_scenario(
        "switch16", status, "--set workload.bytes=4K --set workload.warmup=1 --set workload.algorithm=" + algorithm);
    CHECK(status == 0);
    CHECK(summary.at("wrong") == 0);
    return summary.at("time_ns").get<double>();
  };
  const double ring_ns = time_ns("ring");
  double best_ns = ring_ns;
  for (const char* algorithm : {"tree", "halving-doubling", "direct"}) {
    CAPTURE(algorithm);
    const double other_ns = time_ns(algorithm);
    CHECK(other_ns < ring_ns);
    best_ns = std::min(best_ns, other_ns);
  }
  CHECK(time_ns("auto") == best_ns);
}

TEST_CASE("on the triangle each pair of ranks talks over its own subnet, within 3 % of the closed form") {
  int status = -1;
  const nlohmann::json summary = run_scenario("spark-triangle", status);
  CHECK(summary.at("ranks") == 3);
  CHECK(summary.at("wrong") == 0);
  CHECK(summary.at("over_bound") >= 1.0);
  CHECK(summary.at("over_bound") <= 1.03);
  std::map<std::pair<int, int>, std::string> subnets;
  for (const auto& pair : summary.at("pairs")) {
    const int left = pair.at("source_rank"), right = pair.at("destination_rank");
    const std::string subnet = pair.at("subnet");
    const auto [entry, is_new] = subnets.try_emplace({std::min(left, right), std::max(left, right)}, subnet);
    CHECK(entry->second == subnet);
  }
  CHECK(subnets == std::map<std::pair<int, int>, std::string>{
                       {{0, 1}, "192.168.100.0/24"}, {{1, 2}, "192.168.101.0/24"}, {{0, 2}, "192.168.102.0/24"}});
}

TEST_CASE("slowloris: every run is the same, strangers come again and again, and no rank's data wait for them") {
  int status = -1;
  const nlohmann::json one = run_scenario("slowloris", status);
  CHECK(status == 0);
  const nlohmann::json other = run_scenario("slowloris", status);
  CHECK(one.at("digest") == other.at("digest"));
  CHECK(one.at("strangers") == other.at("strangers"));
  // More than stand at one time: 600 for each of nine ports or more.
  CHECK(one.at("strangers").at("connections") > 10'000);
  CHECK(one.at("strangers").at("bytes") > 1'000);
  CHECK(one.at("strangers").at("held_at_most") > 64);
  const nlohmann::json alone = run_scenario("spark-triangle", status);
  CHECK(one.at("time_ns") == alone.at("time_ns"));
}

TEST_CASE("64 ranks and 1 MiB take under 5 CPU seconds and 210 MB") {
  int status = -1;
  const nlohmann::json summary = run_scenario("switch64", status);
  CHECK(status == 0);
  CHECK(summary.at("ranks") == 64);
  CHECK(summary.at("cpu_s") < 5.0);
  // Each rank maps the code of plugin and engine, 1.8 MB, which all share: 115 MB of these are counted 64 times over.
  CHECK(summary.at("peak_rss_bytes") < 210'000'000);
}

}  // namespace scenarios_test

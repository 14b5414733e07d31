// What a report says of how its collectives went, of the time before, during and after a fault, and where variants go.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/support/command.h"

namespace operations_command_test {

using namespace meshbed::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

json summary_of(const std::string& arguments, int status = 0) {
  const CommandResult result = run_command_line(meshbed_program() + " " + arguments + " --json --results '" +
                                                scratch_folder("operations") + "' 2>/dev/null");
  CHECK(result.status == status);
  return json::parse(result.output);
}

}  // namespace

TEST_CASE("operations: algorithm, protocol and channels are those that were asked for, paths those of the trace") {
  for (const char* algorithm : {"ring", "direct"}) {
    for (const char* protocol : {"simple", "ll"}) {
      const json summary = summary_of(
          "run " + scenario_file("spark-triangle") +
          " --set workload.bytes=64K --set expect.max_over_bound=1000 --set workload.algorithm=" + algorithm +
          " --set workload.protocol=" + protocol);
      const json& operations = summary.at("operations");
      REQUIRE_FALSE(operations.empty());
      for (const json& each : operations) {
        CHECK(each.at("operation") == "all_reduce");
        CHECK(each.at("algorithm") == algorithm);
        CHECK(each.at("protocol") == protocol);
        CHECK(each.at("channels").get<int>() >= 1);
        CHECK_FALSE(each.at("paths").empty());
      }
      // All messages of the run are some operation's, or came between them.
      std::uint64_t messages = 0;
      for (const json& each : operations) {
        for (const json& path : each.at("paths")) messages += path.at("messages").get<std::uint64_t>();
      }
      CHECK(messages <= summary.at("messages").get<std::uint64_t>());
      CHECK(2 * messages >= summary.at("messages").get<std::uint64_t>());
    }
  }
}

TEST_CASE("operations: another path after a cable is gone is another record") {
  const json summary =
      summary_of("run " + scenario_file("spark-triangle") +
                     " --set workload.bytes=1M --set workload.iterations=4 --set workload.algorithm=ring "
                     "--fault cable_down,target=node0-node1,point=iteration,iteration=2",
                 1);  // later than [expect] promises
  const json& operations = summary.at("operations");
  REQUIRE(operations.size() >= 3);  // warm-up, before, after
  const auto uses = [](const json& operation, const std::string& from, const std::string& to) {
    return std::any_of(operation.at("paths").begin(), operation.at("paths").end(), [&](const json& path) {
      return path.at("source").get<std::string>().rfind(from, 0) == 0 &&
             path.at("destination").get<std::string>().rfind(to, 0) == 0;
    });
  };
  CHECK(uses(operations.front(), "node0/", "node1/"));
  CHECK_FALSE(uses(operations.back(), "node0/", "node1/"));
}

TEST_CASE("a run with a fault leads with the time before, during and after it") {
  const std::string arguments = "run " + scenario_file("spark-triangle") +
                                " --set workload.bytes=1M --set workload.iterations=6 "
                                "--fault rate,target=node0-node1,amount=1Gb/s,point=iteration,iteration=2,duration=2ms";
  const json summary = summary_of(arguments, 1);  // later than [expect] promises
  const json& phases = summary.at("fault_phases");
  REQUIRE(phases.size() == 3);
  CHECK(phases[0].at("phase") == "before");
  CHECK(phases[0].at("iterations") == 2);
  CHECK(phases[1].at("phase") == "during");
  CHECK(phases[2].at("phase") == "after");
  const double before = phases[0].at("time_ns"), during = phases[1].at("time_ns"), after = phases[2].at("time_ns");
  CHECK(during > 2 * before);
  CHECK(after < 1.2 * before);
  const CommandResult text =
      run_command_line(meshbed_program() + " " + arguments + " --results '" + scratch_folder("phases") + "'");
  const std::size_t first = text.output.find("before the fault, 2 iterations");
  CHECK(first != std::string::npos);
  CHECK(first < text.output.find("after the fault"));
}

TEST_CASE("port_up brings up a port that began with link = down; a rate slows both directions of a port") {
  const std::string folder = scratch_folder("late_port");
  const std::string pair =
      "[[node]]\nname = \"a\"\n[[node.nic]]\ndevice = \"rocep1s0f0\"\naddresses = "
      "[\"10.0.0.1/24\"]\n[[node]]\nname = \"b\"\n[[node.nic]]\ndevice = \"rocep1s0f0\"\naddresses "
      "= [\"10.0.0.2/24\"]\nlink = \"down\"\n[[cable]]\nends = [\"a/rocep1s0f0\", "
      "\"b/rocep1s0f0\"]\n[workload]\nbytes = \"1M\"\n";
  run_command_line("cat > '" + folder + "/up.toml' <<'T'\n" + pair + "T");
  const CommandResult up =
      run_command_line(meshbed_program() + " run '" + folder +
                       "/up.toml' --fault port_up,target=b/rocep1s0f0,at=1s --results '" + folder + "/r' 2>&1");
  CHECK_MESSAGE(up.status == 0, up.output);

  const auto time_of = [&](const std::string& target) {
    return summary_of("run " + scenario_file("pair") +
                      " --set workload.bytes=1M --set expect.max_over_bound=1000 --set workload.collective=broadcast " +
                      (target.empty() ? "" : "--fault rate,target=" + target + ",amount=1Gb/s"))
        .at("time_ns")
        .get<double>();
  };
  const double whole = time_of(""), sender = time_of("node0/rocep1s0f0"), receiver = time_of("node1/rocep1s0f0");
  CHECK(sender > 10 * whole);
  CHECK(receiver > 10 * whole);
}

TEST_CASE("perf: no time includes the making of connections, also where the algorithm changes between two sizes") {
  const json summary = json::parse(run_command_line(meshbed_program() + " perf all_reduce -b 8 -e 1M -f 4 --scenario " +
                                                    scenario_file("spark-triangle") + " --json 2>/dev/null")
                                       .output);
  double previous = 0;
  for (const json& row : summary.at("rows")) {
    const double out_of_place = row.at("out_of_place").at("time_ns"), in_place = row.at("in_place").at("time_ns");
    CHECK_MESSAGE(out_of_place < 1.3 * in_place, row.dump());  // the first call is the one out of place
    previous = in_place;
  }
  CHECK(previous > 0);
}

TEST_CASE("a work ring whose messages failed is never drained") {
  const json summary = summary_of("run " + scenario_file("megakernel-ring8") +
                                      " --fault node_kill,target=node1,point=start,at=40us --set limits.time=60s",
                                  1);
  CHECK_FALSE(summary.at("errors").empty());
  std::set<int> failed;
  for (const json& error : summary.at("errors")) failed.insert(error.at("rank").get<int>());
  for (const json& verdict : summary.at("rings").at("verdicts")) {
    const bool drained = verdict.at("verdict") == "drained";
    CHECK_MESSAGE((!drained || failed.count(verdict.at("rank").get<int>()) == 0), verdict.dump());
  }
}

TEST_CASE("variants have result folders of their own, and compare finds them") {
  const std::string folder = scratch_folder("variants");
  const std::string run = "cd '" + folder + "' && " + meshbed_program() + " run " + scenario_file("pair");
  CHECK(run_command_line(run + " --set workload.bytes=1M 2>&1").status == 0);
  CHECK(run_command_line(run + " --set workload.bytes=2M 2>&1").status == 0);
  CHECK(fs::exists(folder + "/results/pair+workload.bytes=1M/sim/summary.json"));
  CHECK(fs::exists(folder + "/results/pair+workload.bytes=2M/sim/summary.json"));
  CHECK_FALSE(fs::exists(folder + "/results/pair/sim/summary.json"));
  const CommandResult found =
      run_command_line("cd '" + folder + "' && " + meshbed_program() + " compare sim sim --scenario " +
                       scenario_file("pair") + " --set workload.bytes=1M 2>&1");
  CHECK_MESSAGE(found.status == 0, found.output);
}

}  // namespace operations_command_test

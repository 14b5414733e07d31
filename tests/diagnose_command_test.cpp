// meshbed diagnose: what went wrong with a job, and the runs that prove it.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "testbed/base/files.h"
#include "tests/support/command.h"

namespace diagnose_command_test {

using namespace meshbed::test;
using meshbed::testbed::write_text_file;
using nlohmann::json;

namespace {

CommandResult diagnose(const std::string& arguments) {
  return run_command_line(meshbed_program() + " diagnose " + arguments + " 2>&1");
}

std::string first(const std::string& arguments) {
  const CommandResult result = diagnose(arguments + " --json");
  CHECK(result.status == 0);
  const json report = json::parse(result.output);
  return report.at("causes").empty() ? "none" : report.at("causes").at(0).at("code").get<std::string>();
}

}  // namespace

TEST_CASE("a log, results and a scenario of the same crossed cable lead to it; a healthy pair has no cause") {
  const std::string folder = scratch_folder("diagnose_crossed");
  const auto run = [&](const std::string& name) {
    return run_command_line(meshbed_program() + " run --no-trace " + scenario_file(name) + " --results " + folder +
                            "/r > " + folder + "/" + name + ".log 2>&1")
        .status;
  };
  CHECK(run("crossed-cable") == 0);
  CHECK(run("pair") == 0);
  CHECK(first(folder + "/crossed-cable.log") == "crossed-cable");
  CHECK(first(folder + "/r/crossed-cable") == "crossed-cable");
  CHECK(first(scenario_file("crossed-cable")) == "crossed-cable");
  CHECK(first(folder + "/pair.log") == "none");
  CHECK(first(folder + "/r/pair") == "none");
  CHECK(diagnose(scenario_file("pair")).output.find("no cause found") != std::string::npos);
}

TEST_CASE("the plugin's job reports: a port that lost its link, a connection that failed, and a healthy job") {
  const std::string folder = scratch_folder("diagnose_reports");
  const auto reports_of = [&](const std::string& name, const std::string& options) {
    const std::string where = folder + "/" + name + "/sim";
    run_command_line(meshbed_program() + " run --no-trace --no-expect " + scenario_file(name) + " --results " + folder +
                     " --set environment.NCCL_MESH_REPORT=" + where + "/mesh.json " + options + " >/dev/null 2>&1");
    std::string paths;
    for (const auto& file : std::filesystem::directory_iterator(where)) {
      if (file.path().filename().string().rfind("mesh.", 0) == 0) paths += " " + file.path().string();
    }
    REQUIRE_FALSE(paths.empty());
    return paths;
  };
  const std::string pulled = reports_of("pair-cable-pulled", "");
  CHECK(first(pulled) == "port-down");
  const CommandResult text = diagnose(pulled);
  CHECK(text.output.find("node0:10000: rocep1s0f0 100 Gb/s down 192.168.100.1/24") != std::string::npos);
  CHECK(text.output.find("connections of the job failed") != std::string::npos);
  CHECK(first(reports_of("pair", "")) == "none");
  CHECK(first(reports_of("pair-striped", "")) == "none");
  // Each process by itself, as a whole document or line by line beside a log.
  CHECK(first(pulled.substr(0, pulled.find(' ', 1))) == "port-down");
}

TEST_CASE("machines' files lead to what their state shows: prefixes, MTUs, limits; healthy ones have no cause") {
  const std::string folder = scratch_folder("diagnose_machines");
  const auto machines_of = [&](const std::string& name, const std::string& settings = "") {
    const std::string where = folder + "/" + name;
    const CommandResult written = run_command_line(meshbed_program() + " export " + scenario_file(name) + settings +
                                                   " --to ip -o " + where + " 2>&1");
    CHECK_MESSAGE(written.status == 0, written.output);
    std::string paths;
    for (const std::filesystem::directory_entry& node : std::filesystem::directory_iterator(where)) {
      write_text_file(node.path().string() + "/missing", "");
      paths += " " + node.path().string();
    }
    return paths;
  };
  CHECK(first(machines_of("spark-triangle")) == "none");
  CHECK(first(machines_of("wrong-prefix")) == "wrong-prefix");
  CHECK(first(machines_of("mtu-mismatch")) == "mtu-mismatch");
  const std::string ring = machines_of("ring4");
  CHECK(first(ring) == "none");
  const std::string node = ring.substr(1, ring.find(' ', 1) - 1);
  write_text_file(node + "/ulimit.txt", "8192\n");
  const CommandResult limited = diagnose(ring + " --json");
  CHECK(limited.output.find("\"memlock\"") != std::string::npos);
}

TEST_CASE("--prove names the change that showed the cause, with the digest of the run") {
  const std::string folder = scratch_folder("diagnose_prove");
  write_text_file(
      folder + "/log",
      "meshbed: warning: rank 0: NET/Mesh : no path: the subnets of 192.168.100.1/24 on rocep1s0f0 and the peer's "
      "192.168.100.130/25 overlap but have different prefix lengths: set the same length at both ends\n");
  const CommandResult result =
      diagnose(folder + "/log --scenario " + scenario_file("pair") + " --set workload.bytes=64K --prove --json");
  CHECK(result.status == 0);
  const json cause = json::parse(result.output).at("causes").at(0);
  CHECK(cause.at("code") == "wrong-prefix");
  REQUIRE(cause.contains("proven"));
  CHECK(cause.at("proven").at("changes").at(0).get<std::string>().find(".addresses=[\"192.168.100.") !=
        std::string::npos);
  CHECK(cause.at("proven").at("digest").get<std::string>().size() == 16);
}

TEST_CASE("each cause that a run can show is found first on a switch, from the log and from the results") {
  const CommandResult result = diagnose("--self-check --places 1 --healthy 1 --json");
  CHECK_MESSAGE(result.status == 0, result.output);
  const json report = json::parse(result.output);
  CHECK(report.at("runs").get<int>() >= 40);
  CHECK(report.at("healthy_wrong") == 0);
  CHECK(report.at("log_right").get<double>() >= 0.9 * report.at("runs").get<double>());
  CHECK(report.at("results_right").get<double>() >= 0.9 * report.at("runs").get<double>());
}

TEST_CASE("what is refused, and with which status") {
  CHECK(diagnose("").output.find("expects a log, results, a scenario or --live") != std::string::npos);
  CHECK(diagnose("").status == 2);
  CHECK(diagnose("/nonexistent").status == 2);
  CHECK(diagnose("--self-check --only crossed-cabel").output.find("did you mean crossed-cable?") != std::string::npos);
  CHECK(diagnose("--self-check --only crossed-cabel").status == 2);
  const CommandResult live = diagnose("--live --json");
  CHECK(live.status == 0);
  CHECK(live.output.find("rdma_ports") != std::string::npos);
  CHECK(live.output.find("missing") != std::string::npos);
}

}  // namespace diagnose_command_test

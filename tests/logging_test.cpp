// What a user sees of the plugin's own words, by NCCL's variables in the scenario.
#include <doctest/doctest.h>

#include <fstream>

#include "tests/support/command.h"

namespace logging_test {

using namespace meshbed::test;

namespace {

/// `arguments`: the scenario and what is set in it.
std::string log_of(const std::string& arguments) {
  const CommandResult run = run_command_line(meshbed_program() + " run --results '" + scratch_folder("logging") + "' " +
                                             arguments + " 2>&1 >/dev/null");
  CHECK_MESSAGE(run.status == 0, run.output);
  return run.output;
}

std::string log_of_run(const std::string& options) {
  return log_of(scenario_file("pair") + " --set workload.bytes=4K --set expect.max_over_bound=99 " + options);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("NCCL_DEBUG in the scenario decides how much the plugin says, with the rank that says it") {
  CHECK(log_of_run("").empty());
  CHECK(log_of_run("--set environment.NCCL_DEBUG=WARN").empty());
  const std::string info = log_of_run("--set environment.NCCL_DEBUG=INFO");
  CHECK(contains(info, "rank 0: NET/Mesh : "));
  CHECK(contains(info, "rank 1: NET/Mesh : "));
  CHECK(contains(info, "connection-summary transport=rdma direction=send"));
  CHECK_FALSE(contains(info, "came in on"));
  const std::string trace = log_of_run("--set environment.NCCL_DEBUG=trace --set environment.NCCL_MESH_DEBUG=2");
  CHECK(contains(trace, "came in on"));  // a step of a handshake
}

TEST_CASE("ranks that share one logger are distinguished, and each has its own NCCL_DEBUG") {
  const std::string reconnects = scratch_folder("logging_reconnect") + "/reconnect.toml";
  std::ofstream(reconnects) << R"(
[topology]
kind = "ring"
nodes = 2
[[node]]
name = "node0"
environment = { NCCL_DEBUG = "WARN" }
[workload]
kind = "reconnect"
bytes = "4K"
)";
  for (const std::string& scenario : {scenario_file("nccl-calls-pair-all-reduce"), reconnects}) {
    CAPTURE(scenario);
    const std::string info = log_of(scenario + " --set environment.NCCL_DEBUG=INFO");
    CHECK(contains(info, "rank 0: NET/Mesh : ") == (scenario != reconnects));
    CHECK(contains(info, "rank 1: NET/Mesh : connection-summary transport=rdma direction=send peer=192.168.100.1 "));
    CHECK_FALSE(contains(info, "came in on"));
    CHECK(log_of(scenario).empty());
  }
}

}  // namespace logging_test

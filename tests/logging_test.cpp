// What a user sees of the plugin's own words, by NCCL's variables in the scenario.
#include <doctest/doctest.h>

#include "tests/support/command.h"

using namespace meshbed::test;

namespace {

std::string log_of_run(const std::string& options) {
  const std::string results = scratch_folder("logging");
  const CommandResult run = run_command_line(meshbed_program() + " run " + scenario_file("pair") +
                                             " --set workload.bytes=4K --set expect.max_over_bound=99 --results '" +
                                             results + "' " + options + " 2>&1 >/dev/null");
  CHECK(run.status == 0);
  return run.output;
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

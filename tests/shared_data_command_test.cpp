// [workload] data = "shared": the times of own buffers, what its check sees, and what is refused.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/command.h"

namespace shared_data_command_test {

using namespace meshbed::test;
using nlohmann::json;

namespace {

CommandResult run(const std::string& words) {
  return run_command_line(meshbed_program() + " run " + scenario_file("scale-ring") +
                          " --json --no-trace --no-expect --results '" + scratch_folder("shared_data") +
                          "' --set topology.nodes=5 --set workload.op=max " + words + " 2>/dev/null");
}

std::string refusal(const std::string& words) {
  const CommandResult result = run_command_line(meshbed_program() + " lint " + scenario_file("scale-ring") + " " +
                                                words + " --set workload.data=shared 2>&1");
  CHECK(result.status != 0);
  return result.output;
}

}  // namespace

TEST_CASE("ranks that share their buffers take the time of those that have their own; contents are checked") {
  for (const char* collective : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall",
                                 "gather", "scatter", "sendrecv"}) {
    for (const char* memory : {"true", "false"}) {
      const std::string words = std::string("--set workload.bytes=100020 --set workload.collective=") + collective +
                                " --set workload.in_place=" + memory;
      CAPTURE(words);
      const CommandResult own_run = run(words), shared_run = run(words + " --set workload.data=shared");
      REQUIRE(own_run.status == 0);
      REQUIRE(shared_run.status == 0);
      const json own = json::parse(own_run.output), shared = json::parse(shared_run.output);
      CHECK(shared.at("time_ns") == own.at("time_ns"));
      CHECK(shared.at("messages") == own.at("messages"));
      CHECK(shared.at("checked") == own.at("checked"));
      CHECK(shared.at("wrong") == 0);
    }
  }
}

TEST_CASE("ranks that are ahead leave the buffer to the others, over iterations and by every protocol") {
  for (const char* collective : {"all_reduce", "all_gather", "broadcast", "alltoall"}) {
    for (const char* protocol : {"simple", "ll", "ll128"}) {
      for (const char* cabling : {"star", "switch"}) {
        const std::string words =
            std::string("--set workload.iterations=4 --set workload.bytes=400K --set topology.kind=") + cabling +
            " --set workload.collective=" + collective + " --set workload.protocol=" + protocol;
        CAPTURE(words);
        const CommandResult result = run(words + " --set workload.data=shared");
        REQUIRE_MESSAGE(result.status == 0, result.output);
        const json shared = json::parse(result.output);
        CHECK(shared.at("wrong") == 0);
        CHECK(shared.at("time_ns") == json::parse(run(words).output).at("time_ns"));
      }
    }
  }
}

TEST_CASE("a plugin that changes a byte is seen") {
  for (const char* collective : {"all_reduce", "all_gather", "alltoall"}) {
    CAPTURE(collective);
    const CommandResult result = run(
        std::string("--set workload.data=shared --set workload.dtype=uint8 --set workload.collective=") + collective +
        " --set workload.net_plugin=" MESHBED_BINARY_DIR
        "/lib/libfaulty-net.so --set 'environment.FAULTY_NET=\"first byte is wrong\"'");
    CHECK(result.status == 1);
    CHECK(json::parse(result.output).at("wrong") > 0);
  }
}

TEST_CASE("buffers are shared by collectives in host memory that equal data leave as they are") {
  CHECK(refusal("").find("data: ranks that share their buffers cannot reduce them by sum: set op = max") !=
        std::string::npos);
  CHECK(refusal("--set workload.kind=matrix").find("data: shared is for a collective; leave it out") !=
        std::string::npos);
  CHECK(refusal("--set workload.op=min --set workload.memory=gpu").find("GPUs have memory of their own") !=
        std::string::npos);
}

}  // namespace shared_data_command_test

// [workload] kind = "matrix" by the command line, and two of its runs compared.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "testbed/base/files.h"
#include "tests/support/command.h"

namespace matrix_command_test {

using namespace meshbed::test;
using nlohmann::json;

namespace {

CommandResult run_matrix(const std::string& results, const std::string& words) {
  return run_command_line(meshbed_program() + " run " + scenario_file("engine-matrix") + " --results '" + results +
                          "' " + words + " 2>&1");
}

}  // namespace

TEST_CASE("a matrix is right on rings of 1 to 9 ranks, on a star and on a full mesh, and repeats") {
  const std::string folder = scratch_folder("matrix");
  for (const char* words :
       {"--set workload.nodes=1", "--set topology.kind=full-mesh --set topology.nodes=2", "--set topology.nodes=3",
        "--set topology.kind=full-mesh --set topology.nodes=4", "--set topology.nodes=5",
        "--set topology.kind=star --set topology.nodes=6", "--set topology.nodes=9", "--seed 77"}) {
    const std::string asked =
        std::string("--json --set workload.cases=90 --no-trace --set expect.unreachable=[] ") + words;
    const CommandResult first = run_matrix(folder, asked);
    REQUIRE_MESSAGE(first.status == 0, words, ": ", first.output);
    const json summary = json::parse(first.output.substr(first.output.find('{')));
    CHECK(summary.at("wrong") == 0);
    CHECK(summary.at("checked") > 1000);
    CHECK(summary.at("cases").size() == 90);
    const CommandResult again = run_matrix(folder, asked);
    CHECK(json::parse(again.output.substr(again.output.find('{'))).at("digest") == summary.at("digest"));
  }
}

TEST_CASE("its report has a line for each collective, and compare names the case whose bytes differ") {
  const std::string folder = scratch_folder("matrix_compare");
  const CommandResult run = run_matrix(folder, "--set workload.cases=27");
  REQUIRE_MESSAGE(run.status == 0, run.output);
  for (const char* line : {"all_gather              3 ", "sendrecv                3 ", "matrix                 27 "}) {
    CHECK_MESSAGE(run.output.find(line) != std::string::npos, line, " in ", run.output);
  }
  const std::string one = folder + "/engine-matrix/sim", other = folder + "/other";
  std::filesystem::copy(one, other);
  const std::string command = meshbed_program() + " compare '" + one + "' '" + other + "'";
  CommandResult joined = run_command_line(command);
  CHECK_MESSAGE(joined.status == 0, joined.output);
  CHECK(joined.output.find("result bytes of 27 cases") != std::string::npos);

  json summary = json::parse(meshbed::testbed::read_text_file(other + "/summary.json"));
  json& changed = summary["cases"][5];
  changed["data"][2] = "0123456789abcdef";
  std::ofstream(other + "/summary.json") << summary.dump();
  joined = run_command_line(command);
  CHECK(joined.status == 1);
  CHECK_MESSAGE(joined.output.find("differs: " + changed["case"].get<std::string>() +
                                   ": the ranks' result bytes are not the same") != std::string::npos,
                joined.output);

  REQUIRE(run_matrix(folder, "--set workload.cases=26").status == 0);
  joined = run_command_line(command);
  CHECK(joined.status == 1);
  CHECK_MESSAGE(joined.output.find("differs: cases: not the same ones: case ") != std::string::npos, joined.output);
  summary["cases"] = "some";
  std::ofstream(other + "/summary.json") << summary.dump();
  joined = run_command_line(command + " 2>&1");
  CHECK(joined.status == 2);
  CHECK_MESSAGE(joined.output.find("holds a summary.json or provenance.json that no run wrote") != std::string::npos,
                joined.output);
}

TEST_CASE("a matrix of no case gets an error, and one whose telemetry is asked for a notice") {
  const std::string folder = scratch_folder("matrix_bad");
  const CommandResult none = run_matrix(folder, "--set workload.cases=0");
  CHECK(none.status == 2);
  CHECK_MESSAGE(none.output.find("cases: ") != std::string::npos, none.output);
  const CommandResult empty = run_matrix(folder, "--set workload.bytes=0 --set expect={}");
  CHECK_MESSAGE(empty.status == 0, empty.output);
  CHECK_MESSAGE(empty.output.find("-      data right: nothing to check") != std::string::npos, empty.output);
  const CommandResult told = run_matrix(folder, "--set workload.cases=9 --zernel-out '" + folder + "/z'");
  CHECK(told.status == 0);
  CHECK_MESSAGE(told.output.find("it covers one repeated collective, not a matrix") != std::string::npos, told.output);
}

}  // namespace matrix_command_test

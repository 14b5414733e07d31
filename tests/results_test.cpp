// Where results go, and how long a run may take for them: what the command line says of both.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/support/command.h"

namespace results_test {

using namespace meshbed::test;

TEST_CASE("a results folder whose name is not UTF-8 is written to, and named with a replacement") {
  const std::string folder = scratch_folder("results_bytes");
  const CommandResult result = run_command_line(meshbed_program() + " run --json --no-trace " + scenario_file("pair") +
                                                " --results \"$(printf '" + folder + "/r\\377')\" 2>/dev/null");
  CHECK(result.status == 0);
  CHECK(nlohmann::json::parse(result.output).at("digest").is_string());
  const nlohmann::json provenance = nlohmann::json::parse(
      run_command_line("cat \"$(printf '" + folder + "/r\\377/pair/sim/provenance.json')\"").output);
  CHECK(provenance.at("command_line").dump().find("/r\xEF\xBF\xBD") != std::string::npos);
}

TEST_CASE("a limit of a clock on the wall is refused where time is simulated, with the key that is meant") {
  for (const char* command : {"run x.toml", "perf all_reduce --scenario x.toml"}) {
    const CommandResult result = run_command_line(meshbed_program() + " " + command + " --time-limit 5 2>&1");
    CHECK(result.status == 2);
    CHECK(result.output ==
          "meshbed: --time-limit is for --world emu and metal; of simulated time, say --set limits.time=5s\n");
  }
}

}  // namespace results_test

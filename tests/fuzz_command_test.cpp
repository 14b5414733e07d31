// meshbed fuzz --faults, as a user runs it.
#include <doctest/doctest.h>

#include "tests/support/command.h"

using namespace meshbed::test;

TEST_CASE("300 random fault schedules end right, and say how many faults that were") {
  const CommandResult result = run_command_line(meshbed_program() + " fuzz --faults --count 300 2>&1");
  CHECK_MESSAGE(result.status == 0, result.output);
  CHECK(result.output.find("300 schedules: 300 right, 0 broken; ") != std::string::npos);
}

TEST_CASE("a schedule is a scenario file, equal for equal numbers, and runs as one") {
  const std::string print = meshbed_program() + " fuzz --faults --print ";
  // Two that once left a receiver waiting for ever: the relay had taken what it then lost. And one that ends while
  // packets that nobody waits for are still on a slow cable.
  for (const char* number : {"345", "1333", "509535"}) {
    const CommandResult once = run_command_line(print + number), twice = run_command_line(print + number);
    CHECK(once.output == twice.output);
    CHECK(once.output.find("[[fault]]") != std::string::npos);
    const std::string folder = scratch_folder("schedule");
    const CommandResult run = run_command_line("cd '" + folder + "' && " + print + number + " > schedule.toml && " +
                                               meshbed_program() + " run schedule.toml 2>&1");
    CHECK_MESSAGE(run.status == 0, run.output);
  }
  CHECK(run_command_line(print + "7").output != run_command_line(print + "8").output);
}

TEST_CASE("fuzz says what it wants") {
  const CommandResult nothing = run_command_line(meshbed_program() + " fuzz 2>&1");
  CHECK(nothing.status == 2);
  CHECK(nothing.output.find("fuzz: what shall be fuzzed? There are --faults and --explore") != std::string::npos);
  CHECK(run_command_line(meshbed_program() + " fuzz --faults --count 0 2>&1").status == 2);
}

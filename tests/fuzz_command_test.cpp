// meshbed fuzz --faults, as a user runs it.
#include <doctest/doctest.h>

#include <filesystem>

#include "tests/support/command.h"
#include "tests/support/walk.h"

namespace fuzz_command_test {

using namespace meshbed::test;

TEST_CASE("100 random fault schedules (in whole walks 300) end right, and say how many faults that were") {
  const std::string count = walks_whole() ? "300" : "100";
  const CommandResult result = run_command_line(meshbed_program() + " fuzz --faults --count " + count + " 2>&1");
  CHECK_MESSAGE(result.status == 0, result.output);
  CHECK(result.output.find(count + " schedules: " + count + " right, 0 broken; ") != std::string::npos);
  CHECK(result.output.find(" steps of faults, ") != std::string::npos);
  CHECK(result.output.find(" 0 nodes lost") == std::string::npos);
}

TEST_CASE("60 random fault schedules of GPU memory over several cables end right: the GPU sees what was flushed") {
  const CommandResult result = run_command_line(meshbed_program() + " fuzz --faults --gpu --count 60 2>&1");
  CHECK_MESSAGE(result.status == 0, result.output);
  CHECK(result.output.find("60 schedules: 60 right, 0 broken; ") != std::string::npos);
}

TEST_CASE("a schedule is a scenario file, equal for equal numbers, and runs as one") {
  const std::string print = meshbed_program() + " fuzz --faults --print ";
  const CommandResult once = run_command_line(print + "7"), twice = run_command_line(print + "7");
  CHECK(once.output == twice.output);
  CHECK(once.output.find("[[fault]]") != std::string::npos);
  CHECK(run_command_line(print + "8").output != once.output);
  const std::string folder = scratch_folder("schedule");
  const CommandResult run = run_command_line("cd '" + folder + "' && " + print + "7 > schedule.toml && " +
                                             meshbed_program() + " run schedule.toml 2>&1");
  CHECK_MESSAGE(run.status == 0, run.output);
}

TEST_CASE("what random schedules once found stays found: each in tests/schedules says what it was") {
  const std::string folder = scratch_folder("schedules");
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(MESHBED_SOURCE_DIR "/tests/schedules")) {
    const CommandResult run = run_command_line(meshbed_program() + " run --no-trace --results '" + folder + "' '" +
                                               file.path().string() + "' 2>&1");
    CHECK_MESSAGE(run.status == 0, file.path().string(), "\n", run.output);
    ++count;
  }
  CHECK(count >= 29);
}

TEST_CASE("fuzz says what it wants") {
  const CommandResult nothing = run_command_line(meshbed_program() + " fuzz 2>&1");
  CHECK(nothing.status == 2);
  CHECK(nothing.output.find("fuzz: what shall be fuzzed? There are --faults and --explore") != std::string::npos);
  CHECK(run_command_line(meshbed_program() + " fuzz --faults --count 0 2>&1").status == 2);
  for (const char* both : {"--faults --explore", "--explore --gpu --count 3"}) {
    const CommandResult result = run_command_line(meshbed_program() + " fuzz " + both + " 2>&1");
    CHECK(result.status == 2);
    CHECK_MESSAGE(result.output.find("give one of the two, and run the other afterwards") != std::string::npos,
                  result.output);
  }
  const CommandResult one = run_command_line(meshbed_program() + " fuzz --faults --count 1 2>&1");
  CHECK_MESSAGE(one.output.find("1 schedule: 1 right, 0 broken; ") != std::string::npos, one.output);
}

}  // namespace fuzz_command_test

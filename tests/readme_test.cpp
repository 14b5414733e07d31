// Every command in the README works: the fenced sh blocks are run from the root, line by line.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/emulation.h"
#include "tests/support/walk.h"

namespace readme_test {

using namespace meshbed::test;

namespace {

std::string readme() {
  std::ifstream file(std::string(MESHBED_SOURCE_DIR) + "/README.md");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The lines between ```KIND and ```; comments and empty lines left out.
std::vector<std::string> lines_in_blocks(const std::string& text, const std::string& kind) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line == "```" + kind) {
      inside = true;
    } else if (line.rfind("```", 0) == 0) {
      inside = false;
    } else if (inside && !line.empty() && line.front() != '#') {
      lines.push_back(line);
    }
  }
  return lines;
}

}  // namespace

TEST_CASE("the README's two commands stand in it") {
  const std::vector<std::string> commands = lines_in_blocks(readme(), "sh");
  REQUIRE(commands.size() >= 2);
  CHECK(commands[0] == "./meshbed run scenarios/spark-triangle.toml");
  CHECK(commands[1] == "./meshbed test");
}

TEST_CASE("every command in the README succeeds") {
  if (const std::string why = why_not_emulated(); !why.empty()) MESSAGE("skipped: those of the emulated world: ", why);
  if (!walks_whole()) MESSAGE("left to the stage walks: those that measure or walk (bench, fuzz)");
  const std::string folder = scratch_folder("readme");
  for (const std::string& command : lines_in_blocks(readme(), "sh")) {
    if (command.rfind("./meshbed test", 0) == 0) continue;  // it is what runs this
    if (command.find(" emu") != std::string::npos && !why_not_emulated().empty()) continue;
    const bool is_long =
        command.find("meshbed bench ") != std::string::npos || command.find("meshbed fuzz ") != std::string::npos;
    if (is_long && !walks_whole()) continue;
    // A copy of what the commands read, so that what they write stays out of the working tree.
    const CommandResult result =
        run_command_line("cd '" + folder +
                         "' && ln -sfn '" MESHBED_SOURCE_DIR "'/meshbed meshbed && ln -sfn '" MESHBED_SOURCE_DIR
                         "'/scenarios scenarios && MESHBED_BUILD_DIR='" MESHBED_BINARY_DIR "' " +
                         command + " 2>&1");
    CHECK_MESSAGE(result.status == 0, command, "\n", result.output);
  }
}

TEST_CASE("the README's transcript is what the command prints") {
  const std::vector<std::string> expected = lines_in_blocks(readme(), "text");
  const CommandResult result = run_command_line("cd '" + scratch_folder("readme_transcript") + "' && " +
                                                meshbed_program() + " run " + scenario_file("spark-triangle"));
  // Times of this machine and the plugin's hash may differ; the digest and every simulated figure may not.
  for (const char* start : {"seed 1 ", "3 nodes, ", "all_reduce ", "digest "}) {
    for (const std::string& line : expected) {
      if (line.rfind(start, 0) == 0) CHECK_MESSAGE(result.output.find(line + "\n") != std::string::npos, line);
    }
  }
  CHECK(expected.size() > 10);
}

}  // namespace readme_test

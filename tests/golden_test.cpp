// A run is readable: the whole story of a small all-reduce on the pair, with simulated times, as kept in tests/golden.
// MESHBED_UPDATE_GOLDEN=1 writes the file anew; read the difference before you commit it.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>

#include "tests/support/command.h"

namespace golden_test {

using namespace meshbed::test;

namespace {

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// What differs from build to build and from machine to machine: the plugin's hash, CPU time, memory, folders.
std::string without_machine(std::string text) {
  text = std::regex_replace(text, std::regex("SHA-256 [0-9a-f]{16}"), "SHA-256 ...");
  text = std::regex_replace(text, std::regex(", [0-9.]+ CPU s, [0-9]+ MiB"), ", ... CPU s, ... MiB");
  return std::regex_replace(text, std::regex("results in .*"), "results in ...");
}

}  // namespace

TEST_CASE("a 64 KiB all-reduce on the pair writes the expected events") {
  const std::string folder = scratch_folder("golden");
  const CommandResult run =
      run_command_line(meshbed_program() + " run " + scenario_file("pair") + " --set workload.bytes=64K --results '" +
                       folder + "' --set expect.max_over_bound=1.5");
  REQUIRE(run.status == 0);
  const std::string story = without_machine(run.output) + "\n" + read(folder + "/pair/sim/messages.csv");

  const std::string path = std::string(MESHBED_SOURCE_DIR) + "/tests/golden/pair.txt";
  if (std::getenv("MESHBED_UPDATE_GOLDEN") != nullptr) std::ofstream(path, std::ios::binary) << story;
  CHECK(story == read(path));
}

}  // namespace golden_test

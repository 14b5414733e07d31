// What an H200's driver answers (facts/h200.txt) beside what the simulated one does: the same program on both
// (program/driver_facts.cpp).
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "tests/support/command.h"

namespace facts_test {

using namespace meshbed::test;

namespace {

const std::string kBuild = MESHBED_BINARY_DIR;
const std::vector<std::string> kSections{"versions", "answers", "recording", "contexts", "graph_memory", "beside"};

/// By "section: case", the answer.
std::map<std::string, std::string> facts_in(const std::string& text) {
  std::map<std::string, std::string> facts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.empty() || line[0] == '#' || line.find("meshbed: ") == 0) continue;
    const std::size_t answer = line.rfind(": ");
    REQUIRE_MESSAGE(answer != std::string::npos, line);
    facts[line.substr(0, answer)] += line.substr(answer + 2) + "\n";  // some cases come twice
  }
  return facts;
}

std::map<std::string, std::string> measured() {
  std::ifstream file(MESHBED_SOURCE_DIR "/tests/cuda/facts/h200.txt");
  return facts_in(std::string((std::istreambuf_iterator<char>(file)), {}));
}

/// Where the simulator answers something else, and why.
const std::map<std::string, std::string> kOwn{
    {"graph memory: an allocation's type 2", "801\n"},                   // managed memory of a graph: not there
    {"graph memory, without a free node: fill before a launch", "0\n"},  // its place is there from the start
};

/// Of the versions of a name, one by one; where the simulator implements none it says so.
bool same_versions(const std::string& simulated, const std::string& real) {
  std::size_t left = 0, right = 0;
  while (left < simulated.size() && right < real.size()) {
    const std::size_t left_end = simulated.find_first_of(" \n", left), right_end = real.find_first_of(" \n", right);
    const std::string own = simulated.substr(left, left_end - left);
    if (own != real.substr(right, right_end - right) && own != "-1") return false;
    left = left_end + 1;
    right = right_end + 1;
  }
  return left == simulated.size() && right == real.size();
}

void compare(const std::map<std::string, std::string>& found, bool simulated) {
  const auto real = measured();
  CHECK(found.size() == real.size());
  for (const auto& [what, answer] : found) {
    CAPTURE(what);
    const auto known = real.find(what);
    REQUIRE(known != real.end());
    const auto own = kOwn.find(what);
    if (what.find("versions: ") == 0) {
      CHECK_MESSAGE(same_versions(answer, known->second), answer, known->second);
    } else {
      CHECK(answer == (simulated && own != kOwn.end() ? own->second : known->second));
    }
  }
}

}  // namespace

TEST_CASE(
    "the simulated driver answers as an H200's: versions, codes, what spoils a recording, what waits for a kernel") {
  std::map<std::string, std::string> all;
  for (const std::string& section : kSections) {
    const CommandResult run =
        // In virtual time no call takes longer because the machine does.
        run_command_line(kBuild + "/bin/meshbed cuda run --virtual --gpu H200 " + kBuild + "/bin/cuda-driver-facts " +
                         section + " 20");
    REQUIRE_MESSAGE(run.status == 0, run.output);
    all.merge(facts_in(run.output));
  }
  compare(all, true);
}

TEST_CASE("a real GPU's driver answers so still, where one is at hand") {
  std::map<std::string, std::string> all;
  for (const std::string& section : kSections) {
    const CommandResult run = run_command_line(kBuild + "/bin/cuda-driver-facts " + section + " 2>&1");
    constexpr int kNoGpu = 77;
    if (run.status == kNoGpu) {
      MESSAGE("not looked at: " << run.output);
      return;
    }
    REQUIRE_MESSAGE(run.status == 0, run.output);
    all.merge(facts_in(run.output));
  }
  compare(all, false);
}

}  // namespace facts_test

// The contract tests in both worlds: what the drop-in libibverbs promises, held against the simulator and against
// soft-RoCE, by the same file.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/contract/worlds.h"
#include "tests/support/emulation.h"

namespace contract_test {

using namespace meshbed;
using namespace meshbed::test;
using contract::Run;
using contract::World;

namespace {

Run seen(const std::string& what, const std::string& instead = "") {
  Run run{.name = "a contract", .source = "", .seen = {}, .broken = {}};
  contract::take_lines(run, 0, "S\tibv_poll_cq(3)\nO\tstatus\t" + what + "\tLOC_LEN_ERR\t" + instead + "\tbecause\n");
  return run;
}

void keep(const contract::Table& table, const std::string& name) {
  const std::filesystem::path folder = std::filesystem::path(MESHBED_BINARY_DIR) / "contract";
  std::filesystem::create_directories(folder);
  const std::string file = folder / name;
  std::ofstream(file) << table.text;
  MESSAGE(table.summary, "; the table is in ", file);
}

/// The numbers in docs/worlds.md are these, wherever its lines end.
void check_docs(const std::string& words) {
  std::ifstream file(std::string(MESHBED_SOURCE_DIR) + "/docs/worlds.md");
  std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::replace(page.begin(), page.end(), '\n', ' ');
  CHECK_MESSAGE(page.find(words) != std::string::npos, "docs/worlds.md does not say: ", words);
}

}  // namespace

TEST_CASE("a contract is held, departs as its test says, or is unexplained") {
  CHECK(contract::judge(seen("LOC_LEN_ERR"), World::kSim).held());
  CHECK(contract::judge(seen("LOC_LEN_ERR"), World::kEmu).held());
  CHECK(contract::judge(seen("SUCCESS"), World::kEmu).unexplained ==
        std::vector<std::string>{"rank 0, status: SUCCESS instead of LOC_LEN_ERR"});
  // A departure is soft-RoCE's alone, and must still be there.
  const Run departs = seen("REM_INV_REQ_ERR", "REM_INV_REQ_ERR");
  CHECK(contract::judge(departs, World::kEmu).unexplained.empty());
  CHECK(contract::judge(departs, World::kEmu).departures.size() == 1);
  CHECK(contract::judge(departs, World::kSim).unexplained.size() == 1);
  CHECK(contract::judge(seen("LOC_LEN_ERR", "REM_INV_REQ_ERR"), World::kEmu).unexplained.size() == 1);
  // Nothing looked at, a broken test and a thing that one world did not look at are failures too.
  Run broken{.name = "", .source = "", .seen = {}, .broken = {}};
  CHECK(contract::judge(broken, World::kSim).unexplained == std::vector<std::string>{"nothing was looked at"});
  contract::take_lines(broken, 1, "B\tno device\n");
  CHECK(contract::judge(broken, World::kSim).unexplained == std::vector<std::string>{"broke: rank 1: no device"});
  CHECK(contract::unlike(seen("a"), broken) == std::vector<std::string>{"rank 0, status: not looked at in emu"});
  CHECK(contract::make_table({seen("LOC_LEN_ERR")}, {seen("LOC_LEN_ERR")}).summary ==
        "1 tests, sim 1 held, emu 1 held, 0 with cited departures, 0 unexplained");
}

TEST_CASE("the drop-in keeps every contract in virtual time") {
  const std::vector<Run> sim = run_in_sim();
  CHECK(sim.size() >= 80);
  check_docs(std::to_string(sim.size()) + " contract tests");
  const contract::Table table = contract::make_table(sim, {});
  keep(table, "sim.txt");
  CHECK_MESSAGE(table.unexplained.empty(), table.unexplained);
}

TEST_CASE("soft-RoCE keeps every contract (by default every second one), or departs where the test says so and why") {
  if (const std::string why = why_not_emulated(Emulation::kShort); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  const bool whole = why_not_emulated(Emulation::kWhole).empty();
  const int stride = whole ? 1 : 2;
  const contract::Table table = contract::make_table(run_in_sim(stride), run_in_emu(stride));
  keep(table, "sim-emu.txt");
  if (whole) check_docs("departs in " + std::to_string(table.departing) + " tests");
  CHECK_MESSAGE(table.unexplained.empty(), table.unexplained);
}

}  // namespace contract_test

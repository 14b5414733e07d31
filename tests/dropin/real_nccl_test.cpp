// NVIDIA's own NCCL with nccl-tests, as their user has built them: MESHBED_NCCL_LIBRARY names the libnccl.so.2,
// MESHBED_NCCL_TESTS the folder with all_reduce_perf and its like, built with MPI=1. Neither is part of Meshbed.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/dropin/lines.h"
#include "tests/dropin/programs.h"
#include "tests/support/command.h"
#include "tests/support/walk.h"

namespace real_nccl_test {

using namespace meshbed::test;

namespace {

struct Built {
  std::string library, tests;
};

/// Says why a test is skipped where nothing is named.
bool find(Built* built) {
  const char* library = std::getenv("MESHBED_NCCL_LIBRARY");
  const char* tests = std::getenv("MESHBED_NCCL_TESTS");
  if (library == nullptr || tests == nullptr) {
    MESSAGE(
        "skipped: MESHBED_NCCL_LIBRARY and MESHBED_NCCL_TESTS do not name a built NCCL and nccl-tests (docs/nccl.md)");
    return false;
  }
  *built = {library, tests};
  REQUIRE(std::filesystem::exists(built->library));
  REQUIRE(std::filesystem::exists(built->tests + "/all_reduce_perf"));
  return true;
}

struct Run {
  std::string scenario = "pair", program = "all_reduce", sizes = "-b 8 -e 64K -f 8 -n 2 -w 1";
  std::string options{};  // of nccl run
  std::string before{};   // of the shell: variables, setarch
};

CommandResult run_nccl(const Built& built, const Run& run, const std::string& results) {
  return run_command_line(fmt::format(
      "{} '{}/bin/meshbed' nccl run --nccl '{}' --scenario '{}/scenarios/{}.toml' --gpu H100 --results '{}' {} -- "
      "'{}/{}_perf' {} 2>&1",
      run.before, kBuild, built.library, MESHBED_SOURCE_DIR, run.scenario, results, run.options, built.tests,
      run.program, run.sizes));
}

std::string digest_of(const CommandResult& result) {
  const std::size_t at = result.output.rfind("digest ");
  return at == std::string::npos ? "none" : result.output.substr(at, 23);
}

void check_right(const CommandResult& result) {
  CHECK(result.status == 0);
  CHECK(lines_with(result.output, "# Out of bounds values : 0 OK\n") == 1);
  CHECK(lines_with(result.output, "nccl decided") == 1);
  CHECK(lines_with(result.output, "FAILED") == 0);
}

}  // namespace

TEST_CASE("nccl-tests on NCCL: every operation on every cabling, with no wrong number") {
  Built built;
  if (!find(&built)) return;
  const std::string results = scratch_folder("real-nccl");
  std::vector<Run> runs;
  for (const char* scenario : {"pair", "spark-triangle", "ring4", "star5", "partial5", "ring8", "switch16"}) {
    for (const char* program : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall",
                                "sendrecv", "gather", "scatter"}) {
      const std::string name = scenario;
      const bool large = name == "ring8" || name == "switch16";
      runs.push_back({.scenario = name,
                      .program = program,
                      .sizes = fmt::format("-b 8 -e {} -f 32 -n 1 -w 1", large ? "256K" : "8M")});
    }
  }
  for (const Run& run : walk(std::move(runs), 2)) {
    CAPTURE(run.scenario);
    CAPTURE(run.program);
    const CommandResult result = run_nccl(built, run, results);
    CAPTURE(result.output);
    check_right(result);
  }
}

TEST_CASE("NCCL in virtual time gives one digest, with and without ASLR and in another locale") {
  Built built;
  if (!find(&built)) return;
  const std::string results = scratch_folder("real-nccl-digest");
  const Run run{.scenario = "ring4"};
  const CommandResult first = run_nccl(built, run, results);
  CAPTURE(first.output);
  check_right(first);
  for (const char* before : {"", "setarch -R", "LC_ALL=C.UTF-8 LANG=C.UTF-8"}) {
    CAPTURE(before);
    Run again = run;
    again.before = before;
    CHECK(digest_of(run_nccl(built, again, results)) == digest_of(first));
  }
}

TEST_CASE("NCCL's own transport over the verbs drop-in, and its protocols") {
  Built built;
  if (!find(&built)) return;
  const std::string results = scratch_folder("real-nccl-ib");
  const CommandResult own = run_nccl(built, {.options = "--set environment.NCCL_NET_PLUGIN=none"}, results);
  CAPTURE(own.output);
  check_right(own);
  for (const char* protocol : {"LL", "LL128", "Simple"}) {
    const CommandResult result = run_nccl(
        built,
        {.sizes = "-b 16K -e 16K -n 100 -w 1", .options = fmt::format("--set environment.NCCL_PROTO={}", protocol)},
        results);
    CAPTURE(result.output);
    check_right(result);
  }
}

TEST_CASE("NCCL goes on over another way where a cable is pulled") {
  Built built;
  if (!find(&built)) return;
  const CommandResult result = run_nccl(built,
                                        {.scenario = "ring4",
                                         .sizes = "-b 1M -e 1M -n 20 -w 1",
                                         .options = "--fault cable_down,target=node1-node2,at=8ms"},
                                        scratch_folder("real-nccl-faults"));
  CAPTURE(result.output);
  check_right(result);
  CHECK(lines_with(result.output, "cable_down on node1-node2") == 1);
}

TEST_CASE("NCCL is right where packets are lost or a rank is late, and says so where a rank is gone") {
  Built built;
  if (!find(&built)) return;
  const std::string results = scratch_folder("real-nccl-late");
  const CommandResult lossy = run_nccl(built, {.scenario = "pair-loss", .sizes = "-b 64K -e 64K -n 20 -w 5"}, results);
  CAPTURE(lossy.output);
  check_right(lossy);
  CHECK(lines_with(lossy.output, ", 0 retransmitted") == 0);
  Run run{.sizes = "-b 1M -e 1M -n 20 -w 5", .options = "--fault node_stop,target=node1,at=8ms,duration=800ms"};
  const CommandResult late = run_nccl(built, run, results);
  CAPTURE(late.output);
  check_right(late);
  run.options = "--fault node_kill,target=node1,at=8ms";
  const CommandResult dead = run_nccl(built, run, results);
  CAPTURE(dead.output);
  CHECK(dead.status == 1);
  CHECK(lines_with(dead.output, "remote process exited or there was a network error") == 1);
}

}  // namespace real_nccl_test

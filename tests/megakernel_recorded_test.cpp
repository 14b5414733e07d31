// Work that a ring's recording shows, published into a run's rings at its times.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/command.h"
#include "tests/support/summary.h"

namespace megakernel_recorded_test {

using namespace meshbed::test;

namespace {

const std::string kExample = std::string(MESHBED_SOURCE_DIR) + "/scenarios/rings/example.ring";

nlohmann::json run_recorded(const std::string& options, int& status) {
  return summary_of_run("megakernel-recorded", options, status, scratch_folder("megakernel-recorded"));
}

}  // namespace

TEST_CASE("the scenario's recording is the one that ring dump --example writes") {
  const std::string folder = scratch_folder("megakernel-recorded-example");
  CHECK(run_command_line(meshbed_program() + " ring dump --example '" + folder + "' >/dev/null").status == 0);
  CHECK(run_command_line("cmp '" + folder + "/life.ring' '" + kExample + "'").status == 0);
}

TEST_CASE("recorded work comes at its times into its slots, and stands where it stood; twice with one digest") {
  int status = -1;
  const nlohmann::json first = run_recorded("", status);
  CHECK(status == 0);
  CHECK(first.at("rings").at("recorded").at("items") == 4);
  CHECK(first.at("rings").at("recorded").at("unseen") == 0);
  for (const auto& verdict : first.at("rings").at("verdicts")) CHECK(verdict.at("verdict") == "tenant-masked");
  for (const auto& rank : first.at("rings").at("ranks")) {
    CHECK(rank.at("slots") == 8);
    CHECK(rank.at("published") == 4);
  }
  CHECK(run_recorded("", status).at("digest") == first.at("digest"));
}

TEST_CASE("what a recording says is not said twice, and a file that is none is named") {
  const auto refusal = [](const std::string& options) {
    const CommandResult result = run_command_line(meshbed_program() + " run " + scenario_file("megakernel-recorded") +
                                                  " --no-trace " + options + " 2>&1");
    CHECK(result.status != 0);
    return result.output;
  };
  const auto has = [](const std::string& text, const std::string& words) {
    CHECK_MESSAGE(text.find(words) != std::string::npos, text);
  };
  has(refusal("--set workload.megakernel.items=3"), "items: the recording says it; leave it out");
  has(refusal("--set workload.megakernel.recording=rings/none.ring"), "recording: cannot read ");
  has(refusal("--set workload.megakernel.recording=pair.toml"), "this is no recording of a ring");
  has(refusal("--set workload.megakernel.recording=/dev/zero"), "not a file: a device or pipe may have no end");
  has(refusal("--set workload.megakernel.program=all_reduce"), "recording: goes with program = \"queue\"");
}

}  // namespace megakernel_recorded_test

// meshbed run --mode replay: its report, its closed forms, and what it refuses.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/command.h"

namespace replay_command_test {

using namespace meshbed::test;
using nlohmann::json;

namespace {

CommandResult replay(const std::string& scenario, const std::string& options, const std::string& folder) {
  return run_command_line(meshbed_program() + " run " + scenario_file(scenario) + " --mode replay --results '" +
                          folder + "' " + options);
}

json summary_of(const std::string& scenario, const std::string& options) {
  const CommandResult result = replay(scenario, "--json " + options + " 2>/dev/null", scratch_folder("replay"));
  CHECK(result.status == 0);
  return json::parse(result.output);
}

std::string error_of(const std::string& scenario, const std::string& options) {
  const CommandResult result = replay(scenario, options + " 2>&1 >/dev/null", scratch_folder("replay_error"));
  CHECK(result.status == 2);
  return result.output;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a ring of 4096 ranks, folded: its closed form, its messages, its proofs, and no file a message") {
  const std::string folder = scratch_folder("replay_ring");
  const CommandResult result =
      replay("scale-ring", "--json --set topology.nodes=4096 2>/dev/null", folder);
  REQUIRE(result.status == 0);
  const json summary = json::parse(result.output);
  CHECK(summary.at("mode") == "replay");
  CHECK(summary.at("detail") == "data");
  CHECK(summary.at("folded") == true);
  CHECK(summary.at("contended") == false);
  CHECK(summary.at("ranks") == 4096);
  CHECK(summary.at("messages") == 2 * 4096 * 4095);
  CHECK(summary.at("simulated_messages") == 2 * 4095);
  CHECK(summary.at("time_ns") == doctest::Approx(2 * 4095 * ((64 << 20) / 4096.0 * 8 / 100 + 1000)).epsilon(1e-9));
  CHECK(summary.at("passed") == true);
  REQUIRE(summary.at("proofs").size() >= 5);
  for (const json& proof : summary.at("proofs")) CHECK_MESSAGE(proof.at("ok") == true, proof.dump());
  CHECK(!std::filesystem::exists(folder + "/scale-ring/sim/messages.csv"));
}

TEST_CASE("folded and unfolded replays take the same time, and each repeats its digest") {
  for (const char* scenario : {"scale-ring", "scale-rails", "scale-alltoall"}) {
    CAPTURE(scenario);
    const json folded = summary_of(scenario, "--set topology.nodes=48");
    const json whole = summary_of(scenario, "--set topology.nodes=48 --set fabric.fold=false");
    CHECK(whole.at("folded") == false);
    CHECK(folded.at("folded") == (std::string(scenario) == "scale-alltoall"));  // 48 does not divide the elements
    CHECK(folded.at("time_ns") == whole.at("time_ns"));
    CHECK(folded.at("messages") == whole.at("messages"));
    CHECK(summary_of(scenario, "--set topology.nodes=48 --set fabric.fold=false").at("digest") == whole.at("digest"));
  }
  CHECK(summary_of("scale-ring", "--set topology.nodes=64").at("time_ns") ==
        summary_of("scale-ring", "--set topology.nodes=64 --set fabric.fold=false").at("time_ns"));
}

TEST_CASE("tree, alltoall and rails have their closed forms") {
  CHECK(summary_of("scale-tree", "--set topology.nodes=1024").at("time_ns") ==
        doctest::Approx(2 * 10 * ((1 << 20) * 8 / 100.0 + 1000)).epsilon(1e-9));
  CHECK(summary_of("scale-alltoall", "--set topology.nodes=512").at("time_ns") ==
        doctest::Approx(511 * ((64 << 20) / 512.0 * 8 / 100) + 1000).epsilon(1e-9));
  CHECK(summary_of("scale-rails", "--set topology.nodes=512").at("time_ns") ==
        doctest::Approx(2 * 511 * ((64 << 20) / 4.0 / 512 * 8 / 100 + 1000)).epsilon(1e-9));
}

TEST_CASE("what a replay does not do is refused by name, with what to do instead") {
  CHECK(has(error_of("scale-ring", "--fault cable_down,target=node0-node1,at=1ms,duration=1ms"),
            "--mode replay: faults (cable_down) need the plugin's recovery; leave --mode out to run the real plugin"));
  CHECK(has(error_of("megakernel-ring8", ""), "a workload of kind megakernel has no schedule that could be replayed"));
  CHECK(has(error_of("scale-ring", "--set workload.algorithm=direct"),
            "algorithm direct is not replayed; set workload.algorithm = ring or tree"));
  CHECK(has(error_of("scale-ring", "--set workload.collective=gather"), "gather is not replayed"));
  CHECK(has(error_of("scale-ring", "--set replay.detail=plugin"), "replay.detail = plugin"));
  CHECK(has(error_of("scale-ring", "--set replay.detail=plugn"), "plugn"));
  CHECK(has(error_of("scale-ring", "--set workload.bytes=0"), "a replay needs a byte or more"));
  CHECK(has(error_of("scale-ring", "--set workload.bytes=16"), "4 elements for 8 ranks on 1 channel"));
  CHECK(has(error_of("scale-ring", "--world metal"), "--mode replay is simulated"));
  CHECK(has(error_of("scale-ring", "--perfetto-out x"), "--perfetto-out: a replay keeps no messages"));
  const CommandResult wrong = run_command_line(meshbed_program() + " run " + scenario_file("pair") + " --mode reply 2>&1");
  CHECK(wrong.status == 2);
  CHECK(has(wrong.output, "replay"));
}

}  // namespace replay_command_test

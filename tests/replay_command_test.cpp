// meshbed run --mode replay: its report, its closed forms, and what it refuses.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/csv.h"
#include "tests/support/walk.h"

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

/// Of the last iteration: posted, started, delivered and completed from its start, source, destination, payload.
using Message = std::array<std::int64_t, 7>;

std::vector<Message> messages_of(const std::string& file) {
  std::vector<Message> messages;
  for (const auto& cells : columns_of(file, {"posted_ps", "started_ps", "delivered_ps", "completed_ps", "source_rank",
                                             "destination_rank", "payload_bytes"})) {
    Message& message = messages.emplace_back();
    std::transform(cells.begin(), cells.end(), message.begin(),
                   [](const std::string& cell) { return std::stoll(cell); });
  }
  std::sort(messages.begin(), messages.end());
  return messages;
}

/// Runs both modes with these settings and compares every message of the timed iteration.
void compare_modes(const std::string& settings) {
  CAPTURE(settings);
  const std::string real = scratch_folder("replay_real"), replayed = scratch_folder("replay_plugin");
  const CommandResult run =
      run_command_line(meshbed_program() + " run " + scenario_file("scale-ring") + " --no-expect " + settings +
                       " --json --results '" + real + "' 2>/dev/null");
  REQUIRE(run.status == 0);
  const CommandResult other = replay(
      "scale-ring", "--trace --json --set fabric.fold=false --set replay.detail=plugin " + settings + " 2>/dev/null",
      replayed);
  REQUIRE(other.status == 0);
  CHECK(json::parse(run.output).at("time_ns") == json::parse(other.output).at("time_ns"));
  std::vector<Message> all = messages_of(real + "/scale-ring/sim/messages.csv");
  const std::vector<Message> mine = messages_of(replayed + "/scale-ring/sim/messages.csv");
  REQUIRE(all.size() >= mine.size());
  all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(mine.size()));
  const std::int64_t start = all.front()[0];
  for (Message& message : all) {
    for (std::size_t at = 0; at < 4; ++at) message.at(at) -= start;
  }
  std::sort(all.begin(), all.end());
  CHECK(all == mine);
}

}  // namespace

TEST_CASE("detail plugin: every message has the time that it has with the real plugin") {
  const std::vector<std::string> cablings{
      "--set topology.nodes=3",
      "--set topology.nodes=4",
      "--set topology.nodes=16",
      "--set topology.nodes=5 --set topology.kind=full-mesh",
      "--set topology.nodes=4 --set cable.node1-node2.rate=25Gb/s",
      "--set topology.nodes=6 --set cable.node0-node1.latency=3us --set cable.node4-node5.rate=40Gb/s",
      "--set topology.nodes=3 --set topology.mtu=1500 --set topology.rate=200Gb/s"};
  std::vector<std::string> settings;
  for (const std::string& cabling : cablings) {
    for (const char* collective : {"all_reduce", "all_gather", "broadcast"}) {
      for (const char* bytes : {"1K", "50000", "1M", "7000K"}) {
        settings.push_back(cabling + " --set workload.collective=" + collective + " --set workload.bytes=" + bytes);
      }
    }
  }
  for (const std::string& each : walk(settings, 12)) compare_modes(each);
  compare_modes("--set topology.nodes=4 --set workload.collective=broadcast --set workload.root=2");
  compare_modes(
      "--set topology.nodes=3 --set workload.warmup=2 --set workload.slice_bytes=32K --set workload.bytes=1M");
}

TEST_CASE("a ring of 4096 ranks, folded: its closed form, its messages, its proofs, and no file a message") {
  const std::string folder = scratch_folder("replay_ring");
  const CommandResult result = replay("scale-ring", "--json --set topology.nodes=4096 2>/dev/null", folder);
  REQUIRE(result.status == 0);
  const json summary = json::parse(result.output);
  CHECK(summary.at("mode") == "replay");
  CHECK(summary.at("detail") == "data");
  CHECK(summary.at("folded") == true);
  CHECK(summary.at("contended") == false);
  CHECK(summary.at("ranks") == 4096);
  CHECK(summary.at("messages") == 2 * 4096 * 4095);
  const auto simulated = summary.at("simulated_messages").get<std::uint64_t>();
  CHECK(simulated < 100);  // each step of the ring is as the one before it
  CHECK(simulated + summary.at("skipped_messages").get<std::uint64_t>() == 2 * 4095);
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

TEST_CASE("auto takes the fastest algorithm at any size and number of ranks") {
  for (const char* bytes : {"64", "4K", "64K", "1M", "64M"}) {
    for (const char* cabling : {"--set topology.nodes=64", "--set topology.nodes=1024", "--set topology.nodes=100"}) {
      for (const char* collective : {"all_reduce", "broadcast"}) {
        const std::string settings = std::string(cabling) + " --set workload.bytes=" + bytes +
                                     " --set workload.collective=" + collective + " --set workload.algorithm=";
        CAPTURE(settings);
        const json chosen = summary_of("scale-tree", settings + "auto");
        for (const char* algorithm : {"tree", "ring", "halving-doubling"}) {
          CAPTURE(algorithm);
          if (std::string(algorithm) == "halving-doubling" && std::string(collective) == "broadcast") continue;
          const std::string folder = scratch_folder("replay_choice");
          const CommandResult fixed = replay("scale-tree", "--json " + settings + algorithm + " 2>/dev/null", folder);
          if (fixed.status != 0) continue;  // fewer elements than ranks
          const json fixed_summary = json::parse(fixed.output);
          CHECK(chosen.at("time_ns").get<double>() <= fixed_summary.at("time_ns").get<double>());
          if (chosen.at("replayed_algorithm") == algorithm) CHECK(chosen.at("time_ns") == fixed_summary.at("time_ns"));
        }
      }
    }
  }
  // On a ring of cables there is one.
  const json ring = summary_of("scale-ring", "--set workload.algorithm=auto");
  CHECK(ring.at("replayed_algorithm") == "ring");
  for (const json& each : ring.at("replay_choices")) {
    CHECK(each.at("refused").is_null() == (each.at("algorithm") == "ring"));
  }
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
  CHECK(has(
      error_of("scale-ring", "--set workload.algorithm=direct"),
      "all_reduce by algorithm direct is not replayed; set workload.algorithm to one of: auto, tree, halving-doubling, "
      "ring"));
  CHECK(has(error_of("scale-ring", "--set workload.collective=gather"), "gather is not replayed"));
  const std::string plugin = "--set replay.detail=plugin ";
  CHECK(has(error_of("scale-ring", plugin + "--set workload.warmup=0"), "connections are made in a first iteration"));
  CHECK(has(error_of("scale-ring", plugin + "--set workload.algorithm=tree"), "so that the plugin would relay them"));
  CHECK(has(error_of("scale-ring", plugin + "--set environment.NCCL_DEBUG=INFO"), "NCCL_DEBUG of node0"));
  CHECK(has(error_of("scale-ring", "--trace"), "with replay.detail = plugin alone"));
  CHECK(has(error_of("scale-ring", "--set replay.detail=plugn"), "plugn"));
  CHECK(has(error_of("scale-ring", "--set limits.time=1us"), "it takes longer than limits.time, 1.000 us"));
  CHECK(has(error_of("scale-ring", "--iterations"), "one iteration is replayed"));
  for (const char* option : {"--prom-out metrics", "--zernel-out events", "--inspector-out logs"}) {
    CHECK(has(error_of("scale-ring", option), "are of what the plugin counts, which a replay does not run"));
  }
  CHECK(has(error_of("scale-torus", "--set workload.channels=2"), "a torus has one channel in a replay"));
  CHECK(has(error_of("scale-ring", "--set workload.bytes=0"), "0 is too few"));
  CHECK(has(error_of("scale-ring", "--set workload.bytes=16"), "4 elements for 8 ranks on 1 channel"));
  CHECK(has(error_of("scale-ring", "--world metal"), "--mode replay is simulated"));
  CHECK(has(error_of("scale-ring", "--perfetto-out x"), "--perfetto-out: a replay keeps no messages"));
  const CommandResult wrong =
      run_command_line(meshbed_program() + " run " + scenario_file("pair") + " --mode reply 2>&1");
  CHECK(wrong.status == 2);
  CHECK(has(wrong.output, "replay"));
}

}  // namespace replay_command_test

// What a report says of a fabric, by the command line: each iteration's own time, the time to connect, warnings that
// are counted, pairs that no relay reaches, and the order that a replay of NCCL's calls keeps between its ranks.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"

namespace fabric_answers_test {

using namespace meshbed::test;
using nlohmann::json;

namespace {

bool has(const CommandResult& result, const std::string& text) { return result.output.find(text) != std::string::npos; }

CommandResult meshbed(const std::string& words) { return run_command_line(meshbed_program() + " " + words); }

/// A scenario file of this text, in a folder of its own.
std::string written(const std::string& name, const std::string& text) {
  const std::string path = scratch_folder("fabric_answers_" + name) + "/" + name + ".toml";
  std::ofstream(path) << text;
  return path;
}

CommandResult run(const std::string& scenario, const std::string& words) {
  return meshbed("run '" + scenario + "' --no-trace --results '" + scratch_folder("fabric_answers_results") + "' " +
                 words);
}

json summary_of(const std::string& scenario, const std::string& words = "") {
  const CommandResult result = run(scenario, words + " --json 2> /dev/null");
  REQUIRE_MESSAGE(result.status == 0, result.output);
  return json::parse(result.output);
}

}  // namespace

TEST_CASE("before, during and after a fault are three numbers, in the summary and in the table") {
  const std::string scenario = written("slower", R"([topology]
kind = "ring"
nodes = 2
[workload]
bytes = "4M"
iterations = 3
[[fault]]
kind = "rate"
target = "node0-node1"
amount = "25Gb/s"
point = "iteration"
iteration = 1
duration = "400us"
[expect]
wrong = 0
)");
  const json summary = summary_of(scenario);
  const json& times = summary.at("iteration_times");
  REQUIRE(times.size() == 3);
  const auto time_ns = [&](int index) { return times.at(static_cast<std::size_t>(index)).at("time_ns").get<double>(); };
  CHECK(time_ns(1) > 1.5 * time_ns(0));
  CHECK(time_ns(2) < 1.1 * time_ns(0));
  CHECK((time_ns(0) + time_ns(1) + time_ns(2)) / 3 ==
        doctest::Approx(summary.at("time_ns").get<double>()).epsilon(1e-6));
  CHECK(times.at(1).at("start_ns").get<double>() >= times.at(0).at("start_ns").get<double>() + time_ns(0));

  const CommandResult report = run(scenario, "--iterations");
  CHECK(report.status == 0);
  const auto at = [&](const std::string& text) { return report.output.find(text); };
  CHECK(has(report, "iteration          start      time (us)     algbw     busbw   x bound\n"));
  REQUIRE(at("\n        1 ") != std::string::npos);
  CHECK(at("\n        0 ") < at("\n        - "));  // the fault, between the two
  CHECK(at("\n        - ") < at("\n        1 "));
  CHECK_FALSE(has(run(scenario, ""), "x bound"));
  CHECK(has(
      run(scenario_file("nccl-calls-pair-all-reduce").substr(1, scenario_file("nccl-calls-pair-all-reduce").size() - 2),
          "--iterations"),
      "no iteration has a time of its own here"));
}

TEST_CASE("connections are made by a warm-up, as nccl-tests has one, and their time is a number of its own") {
  const std::string scenario = written("torus", R"([topology]
kind = "torus"
shape = [3, 3]
[workload]
collective = "alltoall"
bytes = 900000
[expect]
wrong = 0
)");
  const json warm = summary_of(scenario), cold = summary_of(scenario, "--set workload.warmup=0");
  CHECK(warm.at("warmup_iterations") == 1);
  CHECK(warm.at("over_bound").get<double>() < 2.5);
  CHECK(cold.at("over_bound").get<double>() > 20);
  const double connecting_ns = warm.at("connect_ns").get<double>();
  CHECK(connecting_ns == doctest::Approx(cold.at("connect_ns").get<double>()));
  // What the first iteration takes without a warm-up is its connections and itself.
  CHECK(cold.at("time_ns").get<double>() - warm.at("time_ns").get<double>() ==
        doctest::Approx(connecting_ns).epsilon(0.1));
  CHECK(has(run(scenario, ""), "\nconnecting took "));
  CHECK(has(run(scenario, "--set workload.warmup=0"), ", within the first timed iteration\n"));
}

TEST_CASE("a warning of many ranks is given once and counted") {
  const std::string scenario = written("typo", R"([topology]
kind = "switch"
nodes = 12
[environment]
NCCL_MESH_RELAY_PROT = "1"
[workload]
bytes = "48K"
[expect]
wrong = 0
)");
  const CommandResult result = run(scenario, "2>&1 >/dev/null | grep 'is not a variable of this plugin'");
  CHECK(has(result, ": NCCL_MESH_RELAY_PROT is not a variable of this plugin"));
  CHECK(has(result, "meshbed: warning: repeated 11 times, by 11 ranks: NET/Mesh : NCCL_MESH_RELAY_PROT is not a"));
  CHECK(std::count(result.output.begin(), result.output.end(), '\n') == 2);
}

TEST_CASE("run, too, names a cabled port without an address") {
  const std::string scenario = written("no_address", R"([topology]
kind = "ring"
nodes = 3
[[node]]
name = "node1"
[[node.nic]]
device = "rocep1s0f1"
addresses = []
[workload]
bytes = "48K"
)");
  CHECK(has(run(scenario, "2>&1"),
            "meshbed: warning: node1/rocep1s0f1: it is cabled but has no address: only its link-local GID is left"));
}

TEST_CASE("lint and topo check say before a run which pairs lie beyond the relays' reach") {
  const std::string scenario = written("far", R"([topology]
kind = "ring"
nodes = 20
[workload]
collective = "alltoall"
bytes = "1M"
)");
  const CommandResult lint = meshbed("lint '" + scenario + "'");
  CHECK(lint.status == 1);
  CHECK(
      has(lint,
          "node0 to node9: no path for alltoall: no cable joins the two nodes, and the 9 cables between them are more "
          "than a chain may have (NCCL_MESH_MAX_RELAY_HOPS=8); so it is with 29 other pairs"));
  const CommandResult check = meshbed("topo check '" + scenario + "'");
  CHECK(has(check, "Beyond the reach of relays: 30 of 190 pairs."));  // 20 pairs 9 cables apart, 10 pairs 10
  CHECK(has(check, "  node0  node9   9 cables, 8 at most\n"));
  CHECK(has(check, "  and 22 more; --all lists them\n"));
  CHECK(has(meshbed("topo check --all '" + scenario + "'"), "  node9   node19  10 cables, 8 at most\n"));
  CHECK_FALSE(has(meshbed("topo check '" + scenario + "' --set topology.nodes=16"), "Beyond the reach"));
  CHECK(
      has(meshbed("topo check '" + scenario + "' --set environment.NCCL_MESH_MAX_RELAY_HOPS=2 --set topology.nodes=6"),
          "Beyond the reach of relays: 3 of 15 pairs."));
  CHECK(meshbed("lint '" + scenario + "' --set topology.nodes=16").status == 0);
}

// NCCL's ranks meet after they have connected (src/transport.cc, ncclTransportP2pSetup). The hub of this star has
// nothing else to do, and software costs nothing: without that order it would have gone before the leaves look for a
// way.
TEST_CASE("a replay of NCCL's calls keeps a relay until all ranks have connected") {
  const std::string scenario = written("star", R"([topology]
kind = "star"
nodes = 3
[workload]
kind = "nccl-calls"
recording = "star.jsonl"
other_devices = true
[expect]
wrong = 0
connections = 1
)");
  const auto line = [](int rank, const std::string& thread, const std::string& call) {
    return "{\"rank\": " + std::to_string(rank) + ", \"t_us\": 1, \"thread\": \"" + thread + "\", \"call\": " + call +
           "}\n";
  };
  std::string recording =
      "{\"meta\": {\"nccl\": \"2.28.9\", \"program\": \"gather\", \"ranks\": 3, \"gpus_per_node\": 1, "
      "\"net_devices_per_node\": 1, \"net_api\": \"v11\", \"max_recvs\": 8, \"pointers\": \"host\"}}\n";
  for (int rank = 0; rank < 3; ++rank) {
    recording += line(rank, "main", "\"init\", \"trafficClass\": -1") + line(rank, "main", "\"devices\", \"n\": 1");
    if (rank == 1) {
      recording += line(1, "service", "\"listen\", \"listener\": 0, \"dev\": 0") +
                   line(1, "service",
                        "\"accept\", \"listener\": 0, \"peer_rank\": 2, \"peer_dev\": 0, \"comm\": 0, \"dev\": 0") +
                   line(1, "service", "\"closeListen\", \"listener\": 0") +
                   line(1, "progress", "\"irecv\", \"comm\": 0, \"req\": 0, \"n\": 1, \"sizes\": [64], \"tags\": [1]") +
                   line(1, "progress", "\"done\", \"comm\": 0, \"req\": 0, \"sizes\": [64]") +
                   line(1, "service", "\"closeRecv\", \"comm\": 0, \"msgs\": 1");
    }
    if (rank == 2) {
      recording += line(2, "service",
                        "\"connect\", \"listener\": 0, \"peer_rank\": 1, \"peer_dev\": 0, \"comm\": 0, \"dev\": 0") +
                   line(2, "progress", "\"isend\", \"comm\": 0, \"req\": 0, \"size\": 64, \"tag\": 1") +
                   line(2, "progress", "\"done\", \"comm\": 0, \"req\": 0, \"sizes\": [64]") +
                   line(2, "service", "\"closeSend\", \"comm\": 0, \"msgs\": 1");
    }
    recording += line(rank, "main", "\"finalize\"");
  }
  std::ofstream(scenario.substr(0, scenario.rfind('/')) + "/star.jsonl") << recording;
  const CommandResult result = run(scenario, "2>&1");
  CHECK_MESSAGE(result.status == 0, result.output);
}

}  // namespace fabric_answers_test

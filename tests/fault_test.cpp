// What a scenario's [[fault]] entries come to, seen from the command line.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"

namespace fault_test {

using namespace meshbed::test;

namespace {

CommandResult command(const std::string& arguments) { return run_command_line(meshbed_program() + " " + arguments); }
bool has(const CommandResult& result, const std::string& text) { return result.output.find(text) != std::string::npos; }
std::string results_option(const char* name) { return " --results '" + scratch_folder(name) + "' "; }

}  // namespace

TEST_CASE("faults are carried out where the scenario says, and a fault that never came is said") {
  const CommandResult pulled = command("run " + scenario_file("pair-cable-pulled") + results_option("faults_pulled"));
  CHECK_MESSAGE(pulled.status == 0, pulled.output);
  CHECK(has(pulled, "  cable_down on node0-node1\n"));
  CHECK(has(pulled, "the port of rocep1s0f0 is down: look at its cable"));
  // 704 us of work, then 7 tries of 4.096 us * 2^18 each: within the modelled retry time.
  const nlohmann::json summary = nlohmann::json::parse(
      command("run --json " + scenario_file("pair-cable-pulled") + results_option("faults_json") + "2>/dev/null")
          .output);
  REQUIRE(summary.at("faults").size() == 1);
  CHECK(summary["faults"][0].at("cuts") == nlohmann::json({"node0/rocep1s0f0", "node1/rocep1s0f0"}));
  const double pulled_ns = summary.at("faults")[0].at("at_ns"),
               failed_ns = summary.at("errors")[0].at("at_ps").get<double>() / 1e3;
  CHECK(failed_ns - pulled_ns >= 7 * 4096.0 * (1 << 18));
  CHECK(failed_ns - pulled_ns < 7 * 4096.0 * (1 << 18) + 1e7);
  CHECK(summary.at("errors")[0].at("class") == "remote");

  const CommandResult late =
      command("run " + scenario_file("pair-delay") + " --set fault.0.at=10s" + results_option("faults_late"));
  CHECK(late.status == 0);
  CHECK(has(late, "     not reached  delay 1000 us on node0-node1: the run ended before\n"));
  const CommandResult perf =
      command("perf all_reduce -b 8 -e 8 --scenario " + scenario_file("pair-node-stop") + " 2>&1 >/dev/null");
  CHECK(perf.status == 0);
  CHECK(perf.output == "meshbed: fault not reached: node_stop on node1\n");
}

TEST_CASE("a simulated run that fails says which connections had something under way, and for whom they waited") {
  const CommandResult run = command("run " + scenario_file("pair-cable-pulled") + results_option("faults_state"));
  // The rank that fails first, too: its engine closes them before the rank's program gets the error.
  CHECK(has(run, "connections that had something under way when the first error came:\n  rank 0: recv"));
  CHECK(has(run, " of 24 done, failed\n"));
  CHECK(has(run, "waits for clear-to-send of 192.168.100.1 (rocep1s0f0) for a message of 262144 bytes"));
  const CommandResult well =
      command("run --json --no-trace " + scenario_file("pair") + results_option("faults_state") + "2>/dev/null");
  const auto summary = nlohmann::json::parse(well.output, nullptr, false);
  REQUIRE_FALSE(summary.is_discarded());
  CHECK(summary.at("states").empty());
}

TEST_CASE(
    "a simulated run that fails or stands still says who was connecting and accepting, over which NIC, for whom") {
  const std::string folder = scratch_folder("faults_making");
  const auto run = [&](const std::string& more) {
    // node1 stands still before it has called accept(), node0 neither gets a call nor an answer.
    std::ofstream(folder + "/making.toml") << "[topology]\nkind = \"ring\"\nnodes = 2\n\n"
                                              "[workload]\ncollective = \"all_reduce\"\nbytes = 4096\n\n"
                                              "[environment]\nNCCL_MESH_ENABLE_RELAY = \"0\"\n\n"
                                              "[[fault]]\nkind = \"node_stop\"\ntarget = \"node1\"\nat = \"240us\"\n"
                                              "duration = \"100s\"\n\n"
                                           << more << "[expect]\nwrong = 0\n";
    return command("run --no-trace '" + folder + "/making.toml' --results '" + folder + "'");
  };
  const std::string by_node0[] = {
      "  rank 0: accept rocep1s0f0: begun ",
      "; waits for a peer with its handle: none has connected at port ",
      "  rank 0: connect rocep1s0f0 to 192.168.100.2/24: begun ",
      "; waits for the reply of 192.168.100.2 port ",
      " over rocep1s0f0: its process has to call accept()\n",
  };
  const CommandResult failed = run("");
  CHECK(failed.status == 1);
  CHECK(has(failed, "\nconnections that were being made when the first error came:\n  rank 0: "));
  for (const std::string& part : by_node0) CHECK_MESSAGE(has(failed, part), part, failed.output);
  CHECK(has(failed, "  rank 1: accept rocep1s0f0: begun 30.0 s ago, last asked for 30.0 s ago; "));
  // Its own engine has closed all that by the time at which the rank's program gets the error.
  std::ifstream file(folder + "/making/sim/summary.json");
  const auto summary = nlohmann::json::parse(file, nullptr, false);
  REQUIRE_FALSE(summary.is_discarded());
  REQUIRE(summary.at("errors").size() >= 1);
  CHECK(summary.at("errors")[0].at("rank") == 0);
  REQUIRE(summary.at("states").size() == 2);
  CHECK(summary.at("states")[0].at("handshakes").size() == 2);

  const CommandResult late = run("[limits]\ntime = \"5s\"\n\n");
  CHECK(late.status == 3);
  CHECK(has(late, "\nconnections that were being made:\n  rank 0: "));
  for (const std::string& part : by_node0) CHECK_MESSAGE(has(late, part), part, late.output);
}

TEST_CASE("a lossy, a slow and a stopping pair end with the right bytes, the same each time") {
  for (const std::string name : {"pair-loss", "pair-delay", "pair-node-stop"}) {
    const auto digest = [&] {
      const CommandResult run =
          command("run --json " + scenario_file(name) + results_option(("faults_" + name).c_str()));
      REQUIRE_MESSAGE(run.status == 0, run.output);
      const nlohmann::json summary = nlohmann::json::parse(run.output);
      CHECK(summary.at("wrong") == 0);
      CHECK(summary.at("faults").size() >= 1);
      return summary.at("digest").get<std::string>();
    };
    CHECK(digest() == digest());
  }
}

TEST_CASE("a node without power is an error of its rank, and no rank waits for it") {
  const CommandResult killed =
      command("run " + scenario_file("pair-node-stop") + " --set fault.0.kind=node_kill --set fault.0.duration=0s" +
              results_option("faults_kill"));
  CHECK(killed.status == 1);
  CHECK_MESSAGE(has(killed, "rank 1: node1 has lost its power (node_kill)"), killed.output);
}

TEST_CASE("a node without ranks may lose its power: no rank is missed, and the run ends well") {
  const CommandResult result =
      command("run " + scenario_file("slow-peer") + results_option("faults_nobody") +
              "--set topology.kind=line --set workload.nodes=2 --set fault.0.kind=node_kill --set "
              "fault.0.target=node2 --set fault.0.duration=0s");
  CHECK_MESSAGE(result.status == 0, result.output);
  CHECK(has(result, "  node_kill on node2\n"));
  CHECK(has(result, "wrong = 0: 0"));
}

TEST_CASE("a detour that is faster than the cable that died breaks no bound") {
  const std::string slow_cable =
      " --set topology.nodes=3 --set topology.rate=200Gb/s --set cable.node0-node1.rate=50Gb/s --set "
      "workload.iterations=3 "
      "--set fault.0.duration=0s --set expect.max_over_bound=10 --set workload.algorithm=ring";
  const CommandResult run =
      command("run " + scenario_file("port-flap") + slow_cable + results_option("faults_detour") + "2>/dev/null");
  CHECK_MESSAGE(run.status == 0, run.output);
  CHECK(has(run, "ok     no ring is faster"));
}

}  // namespace fault_test

// The same files over real verbs: what ran in virtual time runs in virtual machines, and the two runs are joined.
//
// It boots machines and downloads their kernel once (70 MB): ./meshbed test has the first case, its stage emu all.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "testbed/result/zernel/stream.h"
#include "tests/support/command.h"
#include "tests/support/emulation.h"

namespace emulated_test {

using namespace meshbed::test;
namespace zernel = meshbed::testbed::zernel;
using nlohmann::json;

namespace {

/// Runs it in both worlds and joins them; the telemetry has as many calls of as many bytes in both.
void runs_alike(const std::string& scenario, const std::string& arguments = "") {
  const std::string folder = scratch_folder("worlds_" + scenario), results = " --results '" + folder + "' ";
  json summaries[2];
  std::vector<std::pair<std::uint32_t, std::uint64_t>> calls[2];
  int index = 0;
  for (const char* world : {"sim", "emu"}) {
    const std::string records = folder + "/zernel-" + world;
    const CommandResult run =
        run_command_line(meshbed_program() + " run --world " + world + " " + scenario_file(scenario) + results +
                         " --json --zernel-out '" + records + "' " + arguments);
    REQUIRE_MESSAGE(run.status == 0, scenario, " in ", world, ": ", run.output);
    zernel::Streams streams;
    zernel::read_streams(streams, records, std::nullopt);
    for (const zernel::NcclEvent& event : streams.nccl) calls[index].emplace_back(event.rank, event.size_bytes);
    std::sort(calls[index].begin(), calls[index].end());
    summaries[index++] = json::parse(run.output);
  }
  CHECK(calls[0] == calls[1]);
  const auto& [sim, emu] = summaries;
  CHECK(emu.at("world") == "emu");
  CHECK(emu.at("wrong") == 0);
  CHECK(emu.at("plugin_sha256") == sim.at("plugin_sha256"));
  CHECK(emu.at("engine_sha256") == sim.at("engine_sha256"));
  const CommandResult joined =
      run_command_line(meshbed_program() + " compare sim emu --scenario " + scenario_file(scenario) + results);
  CHECK_MESSAGE(joined.status == 0, joined.output);
}

/// Options; in virtual time a run ends by itself.
std::string in_world(const std::string& world) {
  return "--world " + world + (world == "emu" ? " --time-limit 120 " : " ");
}

}  // namespace

TEST_CASE("the triangle runs over soft-RoCE as it does in virtual time, message by message") {
  if (const std::string why = why_not_emulated(Emulation::kShort); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  // Of 4 MiB the first messages' latency is a larger part than of the scenario's 64.
  runs_alike("spark-triangle", "--set workload.bytes=4M --set expect.max_over_bound=1.05");
}

TEST_CASE("one connection's messages are striped over two cables in both worlds alike, from the first one on") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  // Which cable is the busier one at a moment is up to a machine that translates two others: messages lean away from it
  // by a quarter of a mebibyte now and then, so that the balance has its narrow bound in virtual time only.
  runs_alike("pair-striped", "--set workload.bytes=8M --set expect.rail_balance=0.5");
}

TEST_CASE("what NCCL called between two nodes is called over soft-RoCE alike") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  runs_alike("nccl-calls-pair-all-reduce");
}

TEST_CASE("a ring's diagonals go through its neighbours over soft-RoCE as in virtual time") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  runs_alike("ring4-alltoall", "--set workload.bytes=1M");
}

TEST_CASE("the ends of a line whose cables have IPv6 alone find each other over soft-RoCE, too") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  runs_alike("line4", "--set topology.nodes=3 --set topology.first_subnet=fd00:100::/64 --set workload.bytes=64K");
}

TEST_CASE("200 cases of the engine's matrix come out over soft-RoCE with the bits of virtual time") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  runs_alike("engine-matrix");
}

TEST_CASE("GPU memory in virtual machines: every rank's result is the bits that it is in host memory in virtual time") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  const auto run = [](const std::string& scenario, const std::string& world, const std::string& words) {
    const CommandResult result =
        run_command_line(meshbed_program() + " run " + scenario_file(scenario) + " --json " + in_world(world) + words);
    REQUIRE_MESSAGE(result.status == 0, result.output);
    return json::parse(result.output);
  };
  const std::string in_gpus = " --set workload.memory=gpu --set topology.gpus=1 --set topology.gpu_model=H100";
  const std::string words = "--set workload.bytes=1M";
  CHECK(run("triangle-gpu", "emu", words).at("data") ==
        run("triangle-gpu", "sim", words + " --set workload.memory=host").at("data"));
  const std::string cases = "--set workload.cases=60 --set expect.unreachable=[]";
  const json emu = run("engine-matrix", "emu", cases + in_gpus), sim = run("engine-matrix", "sim", cases);
  CHECK(emu.at("wrong") == 0);
  REQUIRE(emu.at("cases").size() == sim.at("cases").size());
  for (std::size_t at = 0; at < emu.at("cases").size(); ++at) {
    CHECK_MESSAGE(emu.at("cases")[at].at("data") == sim.at("cases")[at].at("data"), emu.at("cases")[at].dump());
  }
}

TEST_CASE("Meshbed's plugin keeps the rules of the conformance suite over real verbs too") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  const CommandResult result = run_command_line(meshbed_program() + " conformance --world emu --net-version 11 --json");
  CHECK(result.status == 0);
  const json report = json::parse(result.output);
  CHECK(report.at("world") == "emu");
  CHECK(report.at("cases").size() == 40);
  for (const json& one : report.at("cases")) {
    INFO(one.at("name"), ": ", one.at("finding"), one.at("not_looked_at"), " (", one.at("time_ns"), " ns)");
    const bool of_gpu_memory = one.at("name") == "dma-buf" || one.at("name") == "gpu-flush";  // there is none
    CHECK(one.at("kept") == !of_gpu_memory);
  }
  CHECK(report.at("not_looked_at") == 2);
  CHECK(report.at("broken") == 0);
}

TEST_CASE("perf sweeps over soft-RoCE as over the simulated cables: every size right, one boot for all of them") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  const CommandResult run =
      run_command_line(meshbed_program() + " perf all_reduce -b 8 -e 1M -f 64 -n 2 --world emu --json --scenario " +
                       scenario_file("spark-triangle"));
  REQUIRE_MESSAGE(run.status == 0, run.output);
  const json summary = json::parse(run.output);
  CHECK(summary.at("world") == "emu");
  CHECK(summary.at("emu").at("nodes").size() == 3);
  REQUIRE(summary.at("rows").size() == 3);
  for (const json& row : summary.at("rows")) {
    for (const char* placement : {"out_of_place", "in_place"}) {
      CHECK(row.at(placement).at("wrong") == 0);
      CHECK(row.at(placement).at("time_ns") > 0);
    }
  }
}

TEST_CASE("a sweep that does not end in its time is given up with status 3 and says so") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  const CommandResult run =
      run_command_line(meshbed_program() + " perf all_reduce -b 64M -e 64M -n 1000 --time-limit 3 --world emu " +
                       "--scenario " + scenario_file("pair") + " 2>&1");
  CHECK_MESSAGE(run.status == 3, run.output);
  CHECK_MESSAGE(run.output.find("the run has not ended in 3 s (--time-limit)") != std::string::npos, run.output);
}

TEST_CASE("faults: loss, delay, a machine that stops and goes on, and a pulled cable end alike in both worlds") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  for (const std::string scenario : {"pair-loss", "pair-delay", "pair-node-stop", "pair-cable-pulled"}) {
    const std::string results = " --results '" + scratch_folder("worlds_" + scenario) + "' ";
    for (const std::string world : {"sim", "emu"}) {
      const CommandResult run =
          run_command_line(meshbed_program() + " run --json " + in_world(world) + scenario_file(scenario) + results);
      REQUIRE_MESSAGE(run.status == 0, scenario, " in ", world, ": ", run.output);
      const json summary = json::parse(run.output);
      CHECK_MESSAGE(summary.at("faults").size() >= 1, scenario, " in ", world);
      CHECK(summary.at("errors").size() >= (scenario == "pair-cable-pulled" ? 1 : 0));
    }
    const CommandResult joined =
        run_command_line(meshbed_program() + " compare sim emu --scenario " + scenario_file(scenario) + results);
    CHECK_MESSAGE(joined.status == 0, joined.output);
    CHECK_MESSAGE(joined.output.find("1 fault carried out") != std::string::npos, joined.output);
  }
}

TEST_CASE(
    "a cable that is pulled for ten seconds, or for good beside another one, an address that changes: the same bytes "
    "in both "
    "worlds") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  for (const std::string scenario : {"port-flap", "rail-loss", "gid-change"}) {
    const std::string results = " --results '" + scratch_folder("worlds_" + scenario) + "' ";
    for (const std::string world : {"sim", "emu"}) {
      const CommandResult run =
          run_command_line(meshbed_program() + " run --json " + in_world(world) + scenario_file(scenario) + results);
      REQUIRE_MESSAGE(run.status == 0, scenario, " in ", world, ": ", run.output);
      CHECK(json::parse(run.output).at("wrong") == 0);
    }
    const CommandResult joined =
        run_command_line(meshbed_program() + " compare sim emu --scenario " + scenario_file(scenario) + results);
    CHECK_MESSAGE(joined.status == 0, joined.output);
    CHECK_MESSAGE(joined.output.find("compared by what arrived: ranks 0 and 1") != std::string::npos, joined.output);
  }
}

TEST_CASE("a ring that loses a cable works on as a line, over real verbs") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  const CommandResult run =
      run_command_line(meshbed_program() + " run --world emu --time-limit 120 " + scenario_file("ring4-degraded") +
                       " --results '" + scratch_folder("worlds_degraded") + "' 2>&1");
  CHECK_MESSAGE(run.status == 0, run.output);
  CHECK_MESSAGE(run.output.find("is down (look at its cable), and other nodes lead to the peer") != std::string::npos,
                run.output);
  CHECK_MESSAGE(run.output.find("taken up again after") != std::string::npos, run.output);
}

TEST_CASE(
    "a machine that stops for ever or loses its power ends the run, with the same classes of errors in both worlds") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  // Rank 0's machine without power: only the host is left to write the summary.
  for (const std::string fault : {"kind=node_stop", "kind=node_kill --set fault.0.target=node0"}) {
    const std::string results = " --results '" + scratch_folder("worlds_for_ever") + "' ";
    for (const std::string world : {"sim", "emu"}) {
      const CommandResult run =
          run_command_line(meshbed_program() + " run --json " + in_world(world) + scenario_file("pair-node-stop") +
                           results + "--set fault.0.duration=0s --set fault.0." + fault);
      REQUIRE_MESSAGE(run.status == 1, fault, " in ", world, ": ", run.output);
      CHECK(json::parse(run.output).at("errors").size() >= 1);
    }
    const CommandResult joined = run_command_line(meshbed_program() + " compare sim emu --scenario " +
                                                  scenario_file("pair-node-stop") + results);
    CHECK_MESSAGE(joined.status == 0, joined.output);
  }
}

TEST_CASE("a shell in a node has the node's devices, its cable and the way to its peer") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  const CommandResult result = run_command_line(
      "printf 'hostname\\nls /sys/class/infiniband\\nbusybox ping -c 1 -W 5 192.168.100.2 | grep -c ttl | sed "
      "s/^/replies:/\\n' | " +
      meshbed_program() + " shell node0 --scenario " + scenario_file("pair"));
  CHECK(result.status == 0);
  for (const std::string line : {"node0\r\n", "rocep1s0f0\r\n", "replies:1\r\n"}) {
    CHECK_MESSAGE(result.output.find(line) != std::string::npos, line, result.output);
  }
}

TEST_CASE("meshbed shell ends with the status of the shell, as ssh does") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  const CommandResult result = run_command_line("printf 'exit 7\\n' | " + meshbed_program() +
                                                " shell node1 --scenario " + scenario_file("pair"));
  CHECK_MESSAGE(result.status == 7, result.output);
}

TEST_CASE("an emulated run that is interrupted leaves nothing running and says so") {
  if (const std::string why = why_not_emulated(); !why.empty()) {
    MESSAGE("skipped: ", why);
    return;
  }
  // Every QEMU of the run names the run's folder, which lies in the folder for temporary files.
  const std::string folder = scratch_folder("worlds_temporary");
  const CommandResult result =
      run_command_line("TMPDIR='" + folder + "' timeout --preserve-status -s INT 6 " + meshbed_program() +
                       " run --world emu " + scenario_file("pair") + " --results '" + folder +
                       "' 2>&1; echo status $?; ps ax -o args | grep '[q]emu-system' | grep -c '" + folder + "'");
  CHECK_MESSAGE(
      result.output.find("meshbed: interrupted; nothing is left running\nstatus 130\n0\n") != std::string::npos,
      result.output);
}

}  // namespace emulated_test

// Megakernels as a user runs them: the engine's bits, the same digest twice, and each slot's way in slots.csv.
#include <doctest/doctest.h>

#include <cstddef>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/summary.h"

namespace megakernel_command_test {

using namespace meshbed::test;

namespace {

nlohmann::json run_megakernel(const std::string& scenario, const std::string& options, int& status,
                              const std::string& results = scratch_folder("megakernel")) {
  return summary_of_run(scenario, options, status, results);
}

std::string verdict_of(const nlohmann::json& summary, std::size_t rank) {
  return summary.at("rings").at("verdicts").at(rank).at("verdict");
}

}  // namespace

TEST_CASE("every program gives the engine's bits, on few ranks and many, with few lanes and many") {
  for (const char* program : {"all_reduce", "all_gather", "fused_all_reduce", "pipeline", "moe"}) {
    for (const char* shape : {"--set topology.nodes=2", "--set topology.nodes=5 --set workload.megakernel.lanes=1",
                              "--set topology.nodes=3 --set workload.megakernel.mode=strict"}) {
      CAPTURE(program);
      CAPTURE(shape);
      int status = -1;
      const nlohmann::json summary = run_megakernel(
          "megakernel-ring8",
          std::string(shape) + " --set workload.bytes=120K --set workload.megakernel.program=" + program, status);
      CHECK(status == 0);
      CHECK(summary.at("wrong") == 0);
      std::set<std::string> kept;
      for (const auto& proof : summary.at("proofs")) {
        if (proof.at("ok") == true) kept.insert(proof.at("name"));
      }
      CHECK(kept.count("the engine's result is the same bits") == 1);
      CHECK(kept.count("each message: slot claimed, put, signalled, waited for, done, in this order") == 1);
    }
  }
}

TEST_CASE("two runs have one digest, another seed has another, and slots.csv has each slot's claim before its done") {
  int status = -1;
  const std::string results = scratch_folder("megakernel-trace");
  const nlohmann::json one = run_megakernel("megakernel-ring8", "", status, results);
  CHECK(status == 0);
  CHECK(run_megakernel("megakernel-ring8", "", status).at("digest") == one.at("digest"));
  // 2 (n - 1) / n of an all-reduce's bytes go over each rank's port.
  CHECK(one.at("busbw_GBps").get<double>() == doctest::Approx(one.at("algbw_GBps").get<double>() * 14 / 8));
  CHECK(run_megakernel("megakernel-ring8", "--seed 2", status).at("digest") != one.at("digest"));
  std::ifstream file(results + "/megakernel-ring8/sim/slots.csv");
  std::string line;
  REQUIRE(std::getline(file, line));
  CHECK(line == "at_ps,rank,slot,opcode,event,source,destination,channel,epoch,message,ring,tenant,priority");
  std::map<std::pair<std::string, std::string>, std::string> last;  // by rank and slot: its last event
  std::size_t done = 0;
  while (std::getline(file, line)) {
    std::istringstream columns(line);
    std::vector<std::string> column(10);
    for (std::string& text : column) std::getline(columns, text, ',');
    std::string& before = last[{column[1], column[2]}];
    const std::string& event = column[4];
    if (event == "publish") CHECK((before.empty() || before == "done"));
    if (event == "claim") CHECK(before == "publish");
    if (event == "done") {
      CHECK(before != "publish");
      ++done;
    }
    before = event;
  }
  CHECK(done == one.at("rings").at("slots_done"));
}

TEST_CASE("what strict mode locks, safe mode drains") {
  int status = -1;
  CHECK(verdict_of(run_megakernel("megakernel-starvation", "", status), 0) == "livelock");
  CHECK(status == 0);
  const nlohmann::json safe = run_megakernel(
      "megakernel-starvation", "--set workload.megakernel.mode=safe --set expect.watchdog=drained", status);
  CHECK(status == 0);
  CHECK(verdict_of(safe, 0) == "drained");
  CHECK(safe.at("rings").at("slots_done") == 400);
}

TEST_CASE("an unexpected verdict is a broken promise, and one that does not come is one too") {
  int status = -1;
  run_megakernel("megakernel-starvation", "--set expect.watchdog=drained", status);
  CHECK(status == 1);
  run_megakernel("megakernel-ring8", "--set workload.bytes=64K --set expect.watchdog=livelock", status);
  CHECK(status == 1);
}

TEST_CASE("a stalled peer, a masked tenant and a faulted slot end by themselves, twice with one digest") {
  for (const char* scenario : {"megakernel-stalled-peer", "megakernel-tenant-masked", "megakernel-faulted-slot"}) {
    CAPTURE(scenario);
    int status = -1;
    const nlohmann::json one = run_megakernel(scenario, "", status);
    CHECK(status == 0);
    CHECK(run_megakernel(scenario, "", status).at("digest") == one.at("digest"));
    CHECK(one.at("outcome") == "finished");
    // A faulted slot keeps the ancestor's watchdog silent (vyre, commit ca35047).
    const bool suspects = one.at("rings").at("verdicts").at(0).at("ancestor_suspects_stall");
    CHECK(suspects == (std::string(scenario) != "megakernel-faulted-slot"));
  }
}

TEST_CASE("fields that make no sense together are refused with their place") {
  for (const char* wrong :
       {"--set workload.megakernel.program=queue --set workload.megakernel.mix='[\"adds\"]'",
        "--set workload.megakernel.kernel=priority", "--set workload.megakernel.masked_tenant=3",
        "--set workload.megakernel.stopped_rank=8", "--set workload.bytes=1000", "--set workload.algorithm=tree",
        "--set workload.channels=2", "--set workload.kind=idle", "--set expect.watchdog=hung", "--world emu"}) {
    CAPTURE(wrong);
    CHECK(run_command_line(meshbed_program() + " run " + scenario_file("megakernel-ring8") + " " + wrong +
                           " >/dev/null 2>&1")
              .status == 2);
  }
}

TEST_CASE("one ring that stands still breaks the promise that rings drain, and such a run has no time") {
  int status = -1;
  const nlohmann::json stuck =
      run_megakernel("megakernel-ring8",
                     "--set topology.nodes=4 --set workload.bytes=64K --set workload.iterations=1"
                     " --set workload.megakernel.stopped_rank=0 --set workload.megakernel.stopped_after=42",
                     status);
  CHECK(status == 1);
  CHECK(stuck.at("time_ns") == 0);
  bool broken = false;
  for (const auto& one : stuck.at("expected")) broken = broken || one.at("ok") == false;
  CHECK(broken);
}

TEST_CASE("work that takes longer than the watchdog's looks is no reason to end a ring") {
  for (const char* options :
       {"--set workload.megakernel.program=fused_all_reduce --set workload.megakernel.compute=50ms",
        "--set workload.megakernel.program=pipeline --set workload.megakernel.compute=50ms",
        "--set workload.megakernel.flag=1s", "--set workload.megakernel.doorbell=1s"}) {
    CAPTURE(options);
    int status = -1;
    const nlohmann::json summary = run_megakernel(
        "megakernel-ring8",
        std::string("--set topology.nodes=4 --set workload.bytes=64K --set workload.iterations=1 ") + options, status);
    CHECK(status == 0);
    CHECK(verdict_of(summary, 0) == "drained");
  }
}

TEST_CASE("a ring that never began has no verdict; what would be ignored is refused") {
  int status = -1;
  const nlohmann::json none =
      run_megakernel("megakernel-ring8", "--set topology.nodes=4 --set workload.net_plugin=no-such-plugin.so", status);
  CHECK(status == 1);
  CHECK(none.at("rings").at("verdicts").empty());
  const auto refused = [](const std::string& options) {
    return run_command_line(meshbed_program() + " lint " + scenario_file("megakernel-ring8") + " " + options + " 2>&1")
        .output;
  };
  // A ring on a GPU has a slot for each of the program's; a modelled one uses its slots again.
  const std::string few = scenario_file("megakernel-ring8-gpu") + " --set workload.megakernel.slots=20 2>&1";
  CHECK(run_command_line(meshbed_program() + " lint " + few).output.find("slots: 20 are too few") != std::string::npos);
  CHECK(run_command_line(meshbed_program() + " run " + few).status == 2);
  CHECK(refused("--set workload.warmup=5").find("warmup: a megakernel is launched once") != std::string::npos);
  CHECK(refused("--set workload.megakernel.program=pipeline --set workload.op=max")
            .find("op: stages of a pipeline add; there is no max of them") != std::string::npos);
  const CommandResult perf = run_command_line(meshbed_program() + " perf all_reduce --scenario " +
                                              scenario_file("megakernel-ring8") + " 2>&1");
  CHECK(perf.status == 2);
  CHECK(perf.output.find("perf calls collectives, and this scenario runs megakernels") != std::string::npos);
}

TEST_CASE("--perfetto-out has slots and wire on one time line, the same each time, and goes with messages.csv") {
  const std::string folder = scratch_folder("megakernel-perfetto");
  int status = -1;
  run_megakernel("megakernel-ring8", "--set topology.nodes=4 --perfetto-out " + folder + "/one.json", status, folder);
  CHECK(status == 0);
  run_megakernel("megakernel-ring8", "--set topology.nodes=4 --perfetto-out " + folder + "/two.json", status, folder);
  const auto text_of = [](const std::string& path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string one = text_of(folder + "/one.json");
  CHECK(one == text_of(folder + "/two.json"));
  std::map<std::string, int> begun, ended;
  const nlohmann::json trace = nlohmann::json::parse(one);
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == "b") ++begun[event.at("cat").get<std::string>()];
    if (event.at("ph") == "e") ++ended[event.at("cat").get<std::string>()];
  }
  CHECK(begun == ended);
  CHECK(begun["slot"] > 0);
  CHECK(begun["wire"] > 0);
  for (const char* operation : {"PUT", "SIGNAL", "WAIT", "REDUCE"}) {
    CHECK_MESSAGE(one.find(std::string(" ") + operation + "\"") != std::string::npos, operation);
  }
  CHECK(one.find("user 0x") == std::string::npos);
  const CommandResult refused =
      run_command_line(meshbed_program() + " run " + scenario_file("pair") + " --no-trace --perfetto-out x 2>&1");
  CHECK(refused.status == 2);
  CHECK(refused.output == "meshbed: --perfetto-out shows what --no-trace leaves out: give one of them\n");
}

TEST_CASE("two blocks that wait for each other's next slot: the cycle is named, and with blocks enough there is none") {
  int status = -1;
  const nlohmann::json stuck = run_megakernel("megakernel-wait-cycle", "", status);
  CHECK(status == 0);
  CHECK(verdict_of(stuck, 0) == "wait-cycle");
  CHECK(verdict_of(stuck, 1) == "wait-cycle");
  const nlohmann::json& waits = stuck.at("rings").at("waits");
  CHECK(waits.at("cycle") == true);
  REQUIRE(waits.at("links").size() == 4);
  CHECK(waits.at("links").at(0).at("block") == 0);
  CHECK(waits.at("links").at(1).at("rank") == 1);
  CHECK(waits.at("links").at(1).at("block") == nullptr);
  const std::string text = waits.at("text");
  CHECK(text.find("rank 0 ring 0 slot 0 (WAIT, block 0) waits for message 0 of connection 0 in epoch 1 from rank 1's "
                  "slot ") == 0);
  CHECK(text.find("is not claimed: its block 0 is in slot 0: a cycle") != std::string::npos);
  CHECK(run_megakernel("megakernel-wait-cycle", "", status).at("rings").at("waits") == waits);
  const nlohmann::json drained = run_megakernel(
      "megakernel-wait-cycle", "--set workload.megakernel.lanes=8 --set expect.watchdog=drained", status);
  CHECK(status == 0);
  CHECK(drained.at("rings").count("waits") == 0);
  // Where it is not expected, the broken promise names which tenant waits for which.
  const nlohmann::json broken = run_megakernel("megakernel-wait-cycle", "--set expect.watchdog=drained", status);
  CHECK(status == 1);
  CHECK(broken.dump().find("every ring drains") != std::string::npos);
}

TEST_CASE("a chain of waits ends at the rank that stands still, or at a masked tenant") {
  int status = -1;
  const nlohmann::json peer = run_megakernel("megakernel-stalled-peer", "", status).at("rings").at("waits");
  CHECK(peer.at("cycle") == false);
  CHECK(peer.at("links").back().at("rank") == 1);
  CHECK(std::string(peer.at("text")).find("its kernel stands still, stopped after ") != std::string::npos);
  const nlohmann::json masked = run_megakernel("megakernel-tenant-masked", "", status).at("rings").at("waits");
  CHECK(std::string(masked.at("text")).find("is not claimed: its tenant 1 is masked") != std::string::npos);
}

TEST_CASE("a flag before its data is named, whatever the program; counted flags and ordered ones drain") {
  for (const char* program : {"all_reduce", "all_gather", "fused_all_reduce", "pipeline", "moe"}) {
    CAPTURE(program);
    const std::string options = std::string(" --set workload.megakernel.program=") + program;
    int status = -1;
    const nlohmann::json stale = run_megakernel("megakernel-unordered", options, status);
    CHECK(status == 0);
    CHECK(stale.at("wrong").is_null());  // a result that is known to be none is not checked
    std::string text;
    for (const auto& verdict : stale.at("rings").at("verdicts")) {
      if (verdict.at("verdict") == "flag-before-data" && text.empty()) text = verdict.at("text");
    }
    CHECK(text.find(" reads message ") != std::string::npos);
    CHECK(text.find(" of connection ") != std::string::npos);
    CHECK(text.find("its flag was seen, its data lands at ") != std::string::npos);
    CHECK(run_megakernel("megakernel-unordered", options, status).at("digest") == stale.at("digest"));
    const nlohmann::json counted = run_megakernel(
        "megakernel-unordered",
        options + " --set workload.megakernel.ordering=counted --set expect.watchdog=drained --set expect.wrong=0",
        status);
    CHECK(status == 0);
    CHECK(counted.at("checked") > 0);
  }
}

TEST_CASE("what orderings and slot orders do not go with is refused") {
  for (const char* wrong :
       {"--set workload.megakernel.unordered_delay=0s", "--set workload.megakernel.ordering=ordered",
        "--set workload.megakernel.program=queue", "--set workload.megakernel.ordering=any"}) {
    CAPTURE(wrong);
    CHECK(run_command_line(meshbed_program() + " run " + scenario_file("megakernel-unordered") + " " + wrong +
                           " 2>/dev/null")
              .status == 2);
  }
}

}  // namespace megakernel_command_test

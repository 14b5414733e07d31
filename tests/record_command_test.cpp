// meshbed record, and replays of what it wrote.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "testbed/base/files.h"
#include "tests/support/command.h"
#include "tests/support/csv.h"
#include "tests/support/walk.h"

namespace record_command_test {

using namespace meshbed::test;
using nlohmann::json;

namespace {

CommandResult record(const std::string& scenario, const std::string& options) {
  return run_command_line(meshbed_program() + " record " + scenario_file(scenario) + " " + options);
}

json recorded(const std::string& scenario, const std::string& options, const std::string& file) {
  const CommandResult result = record(scenario, "--json " + options + " --out '" + file + "' 2>/dev/null");
  REQUIRE(result.status == 0);
  return json::parse(result.output);
}

json run(const std::string& scenario, const std::string& options, const std::string& folder) {
  const CommandResult result =
      run_command_line(meshbed_program() + " run " + scenario_file(scenario) + " --no-expect --json --results '" +
                       folder + "' " + options + " 2>/dev/null");
  REQUIRE(result.status == 0);
  return json::parse(result.output);
}

std::string replay_options(const std::string& file) { return " --mode replay --set replay.schedule='" + file + "'"; }

/// Posted, started, delivered, completed, ranks and bytes of each message of a messages.csv, in any order.
std::vector<std::vector<std::string>> messages_of(const std::string& file) {
  auto messages = columns_of(file, {"posted_ps", "started_ps", "delivered_ps", "completed_ps", "source_rank",
                                    "destination_rank", "wire_bytes"});
  for (const auto& message : messages) REQUIRE(std::find(message.begin(), message.end(), "") == message.end());
  std::sort(messages.begin(), messages.end());
  return messages;
}

}  // namespace

TEST_CASE("a recorded run, replayed on its own links: every message has the time that the real plugin's has") {
  const std::vector<std::string> cablings{
      "--set topology.nodes=3 --set topology.kind=ring",
      "--set topology.nodes=4 --set topology.kind=full-mesh",
      "--set topology.nodes=5 --set topology.kind=star",
      "--set topology.nodes=8 --set topology.kind=ring --set cable.node4-node5.rate=40Gb/s",
      "--set topology.nodes=9 --set topology.kind=torus --set topology.shape=[3,3]",
      "--set topology.nodes=16 --set topology.kind=switch",
      "--set topology.nodes=12 --set topology.kind=leaf-spine --set topology.leaves=3 --set topology.spines=2",
  };
  std::vector<std::string> settings;
  for (const std::string& cabling : cablings) {
    for (const char* collective : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "alltoall"}) {
      for (const char* bytes : {"1K", "50000", "1M", "7000K"}) {
        for (const char* algorithm : {"ring", "tree", "halving-doubling", "direct", "mesh"}) {
          settings.push_back(cabling + " --set workload.collective=" + collective + " --set workload.bytes=" + bytes +
                             " --set workload.algorithm=" + algorithm + " --set 'expect={}'");
        }
      }
    }
  }
  const std::string file = scratch_folder("record_matrix") + "/run.schedule";
  for (const std::string& each : walk(settings, 20)) {
    CAPTURE(each);
    const json report = recorded("scale-ring", each, file);
    CHECK(report.at("messages").get<int>() > 0);
    CHECK_MESSAGE(report.at("different_messages") == 0, report.dump());
  }
}

TEST_CASE("recorded are also protocols, channels, costs of software, GPUs' reads, recorded NCCL, megakernels") {
  const std::string file = scratch_folder("record_kinds") + "/run.schedule";
  for (const char* options :
       {"scale-ring --set topology.nodes=4 --set workload.protocol=ll --set workload.bytes=8K",
        "scale-ring --set topology.nodes=4 --set workload.protocol=ll128 --set workload.bytes=64K",
        "triangle-two-channels", "spark-ring4 --set models.profile=dgx-spark --set 'expect={}'", "pair-striped",
        "triangle-gpu-direct", "ranks-uneven", "nccl-calls-ring4-alltoall", "megakernel-ring8", "fat-tree",
        "two-switches-routed"}) {
    CAPTURE(options);
    const std::string words = options;
    const std::size_t space = words.find(' ');
    const json report = recorded(words.substr(0, space), space == std::string::npos ? "" : words.substr(space), file);
    CHECK_MESSAGE(report.at("different_messages") == 0, report.dump());
  }
}

TEST_CASE("a replay of the file takes the run's time, has its messages, and repeats its digest") {
  const std::string folder = scratch_folder("record_file"), file = folder + "/run.schedule";
  const std::string cabling = "--set topology.nodes=6 ";
  const std::string settings = cabling + "--set workload.algorithm=tree --set workload.iterations=3";
  recorded("scale-ring", settings, file);
  const json real = run("scale-ring", settings, folder + "/real");
  const json one = run("scale-ring", cabling + replay_options(file) + " --trace --iterations", folder + "/replayed");
  const json two = run("scale-ring", cabling + replay_options(file), folder + "/again");
  CHECK(one.at("time_ns") == real.at("time_ns"));
  CHECK(one.at("messages") == real.at("messages"));
  CHECK(one.at("iterations") == 3);
  CHECK(one.at("iteration_times").size() == 3);
  CHECK(one.at("detail") == "recorded");
  CHECK(one.at("recorded_from") == "scale-ring");
  CHECK(one.at("digest") == two.at("digest"));
  CHECK(one.at("pairs") == real.at("pairs"));
  for (const json& proof : one.at("proofs")) CHECK_MESSAGE(proof.at("ok") == true, proof.dump());
  CHECK(messages_of(folder + "/replayed/scale-ring/sim/messages.csv") ==
        messages_of(folder + "/real/scale-ring/sim/messages.csv"));
}

TEST_CASE("on other links a replay takes what the real plugin takes there, where its plan stays the same") {
  const std::string folder = scratch_folder("record_links"), file = folder + "/run.schedule";
  for (const char* scenario : {"scale-ring", "scale-tree"}) {
    for (const char* algorithm : {"ring", "tree"}) {
      for (const char* bytes : {"8K", "1M", "16M"}) {
        const std::string cabling = "--set topology.nodes=8";
        const std::string settings =
            cabling + " --set workload.algorithm=" + algorithm + " --set workload.bytes=" + bytes;
        recorded(scenario, settings, file);
        for (const char* change : {" --set topology.rate=200Gb/s", " --set topology.rate=25Gb/s"}) {
          CAPTURE(scenario);
          CAPTURE(settings + change);
          const double real_ns = run(scenario, settings + change, folder + "/real").at("time_ns").get<double>();
          const double replay_ns =
              run(scenario, cabling + change + replay_options(file), folder + "/replay").at("time_ns").get<double>();
          CHECK(replay_ns == doctest::Approx(real_ns).epsilon(0.03));
        }
      }
    }
  }
}

TEST_CASE("what cannot be recorded or replayed is refused by name, and a file that was there stays") {
  const std::string folder = scratch_folder("record_refused"), file = folder + "/run.schedule";
  meshbed::testbed::write_text_file(file, "before\n");
  const auto refused = [&](const std::string& scenario, const std::string& options) {
    const CommandResult result = record(scenario, options + " --out '" + file + "' 2>&1 >/dev/null");
    CHECK(result.status != 0);
    CHECK(meshbed::testbed::read_text_file(file) == "before\n");
    return result.output;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  has(refused("pair-loss", ""),
      "record: faults (loss) need the plugin's recovery, which a schedule has not; record the run without them");
  has(refused("crossed-cable", ""), "record: the run failed, and nothing was written: all_reduce 1: no connection");
  has(refused("scale-ring", "--set topology.nodes=3 --set environment.NCCL_MESH_DISABLE_RDMA=1 --set 'expect={}'"),
      "record: the run had no message over RDMA");
  has(refused("scale-ring", "--set topology.nodes=3 --set fabric.kind=fluid"),
      "record: replays share links in chunks; set fabric.kind = chunk");
  const std::string own = folder + "/own.toml";
  meshbed::testbed::write_text_file(own,
                                    meshbed::testbed::read_text_file(MESHBED_SOURCE_DIR "/scenarios/scale-ring.toml"));
  const CommandResult over =
      run_command_line(meshbed_program() + " record '" + own + "' --out '" + own + "' 2>&1 >/dev/null");
  CHECK(over.status == 2);
  has(over.output, "that is the scenario itself; name another file");
  has(refused("scale-ring", "--set expect.max_over_bound=1.0001 --set topology.nodes=4 --set workload.bytes=1K"),
      "record: the run failed, and nothing was written");
  has(refused("switch-small-mtu", ""), "record: the run failed, and nothing was written");

  const auto replay_error = [&](const std::string& settings) {
    const CommandResult result =
        run_command_line(meshbed_program() + " run " + scenario_file("scale-ring") + " --results '" + folder +
                         "' --mode replay " + settings + " 2>&1 >/dev/null");
    CHECK(result.status == 2);
    return result.output;
  };
  has(replay_error("--set replay.schedule=none.schedule"),
      "replay.schedule: none.schedule is not there; `meshbed record` writes one");
  has(replay_error("--set replay.schedule='" + folder + "'"), " is a folder; `meshbed record` writes one");
  has(replay_error("--set replay.schedule='" + file + "'"), "line 1: a schedule begins with \"meshbed-schedule 1\"");
  recorded("scale-ring", "--set topology.nodes=4", file);
  has(replay_error("--set topology.nodes=3 --set replay.schedule='" + file + "'"), "the cluster has no port node3/");
  const std::string good = "--set topology.nodes=4 --set replay.schedule='" + file + "' ";
  has(replay_error(good + "--fault cable_down,target=node0-node1,at=1ms"),
      "faults (cable_down) need the plugin's recovery");
  has(replay_error(good + "--profile dgx-spark"),
      "--profile: the schedule has the times that software took in its run");
  has(replay_error(good + "--set fabric.kind=fluid"), "recorded messages share links in chunks");
  has(replay_error(good + "--set workload.bytes=2M"),
      "--set workload.bytes=2M: replay.schedule has the messages of another");
  has(replay_error(good + "--set topology.mtu=1500"), "it was recorded with packets of 4096 bytes");
  has(replay_error("--set topology.nodes=4 --set limits.time=1us --set replay.schedule='" + file + "'"),
      "--mode replay: it takes longer than limits.time, 1.000 us; set that higher");
  std::string text = meshbed::testbed::read_text_file(file);
  meshbed::testbed::write_text_file(file, text.substr(0, text.size() / 2));
  has(replay_error("--set topology.nodes=4 --set replay.schedule='" + file + "'"), "line ");
}

}  // namespace record_command_test

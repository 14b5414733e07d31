// replay.detail = plugin with any of the engine's algorithms: every message's time against the real plugin's.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "testbed/base/files.h"
#include "testbed/scenario/collective_shape.h"
#include "testbed/scenario/scenario.h"
#include "testbed/world/replay/planned_run.h"
#include "testbed/world/replay/recorded_run.h"
#include "testbed/world/replay/replay_run.h"
#include "tests/support/command.h"
#include "tests/support/csv.h"
#include "tests/support/walk.h"

namespace planned_replay_test {

using namespace meshbed::test;
using namespace meshbed::testbed;
using nlohmann::json;

namespace {

using Settings = std::vector<std::string>;
/// Posted, started, delivered and completed from the start of the last iteration, source, destination, payload.
using Message = std::array<std::int64_t, 7>;

const std::string kScenario = MESHBED_SOURCE_DIR "/scenarios/scale-ring.toml";

std::string options_of(const Settings& settings) {
  std::string text;
  for (const std::string& each : settings) text += " --set '" + each + "'";
  return text;
}

CommandResult meshbed(const std::string& command, const std::string& options) {
  return run_command_line(meshbed_program() + " " + command + " " + scenario_file("scale-ring") + options +
                          " --json 2>/dev/null");
}

std::vector<Message> sorted(const std::vector<meshbed::sim::ReplayRecord>& records) {
  std::vector<Message> messages;
  for (const auto& each : records) {
    messages.push_back({each.posted_ps, each.started_ps, each.delivered_ps, each.completed_ps, each.source,
                        each.destination, static_cast<std::int64_t>(each.payload_bytes)});
  }
  std::sort(messages.begin(), messages.end());
  return messages;
}

struct RealRun {
  double time_ns = 0;
  std::vector<Message> messages;  // of the last iteration: the last `count`
};

RealRun real_run(const Settings& settings, std::size_t count) {
  const std::string folder = scratch_folder("planned_real");
  const CommandResult run = meshbed("run", options_of(settings) + " --no-expect --results '" + folder + "'");
  REQUIRE(run.status == 0);
  RealRun real{.time_ns = json::parse(run.output).at("time_ns").get<double>(), .messages = {}};
  for (const auto& cells :
       columns_of(folder + "/scale-ring/sim/messages.csv", {"posted_ps", "started_ps", "delivered_ps", "completed_ps",
                                                            "source_rank", "destination_rank", "payload_bytes"})) {
    Message& message = real.messages.emplace_back();
    std::transform(cells.begin(), cells.end(), message.begin(),
                   [](const std::string& cell) { return std::stoll(cell); });
  }
  std::sort(real.messages.begin(), real.messages.end());
  REQUIRE(real.messages.size() >= count);
  real.messages.erase(real.messages.begin(), real.messages.end() - static_cast<std::ptrdiff_t>(count));
  const std::int64_t start_ps = real.messages.front()[0];
  for (Message& message : real.messages) {
    for (std::size_t at = 0; at < 4; ++at) message.at(at) -= start_ps;
  }
  std::sort(real.messages.begin(), real.messages.end());
  return real;
}

/// In which ranks ended the iteration before the last one.
std::vector<int> arrivals_of(const Settings& settings) {
  const std::string file = scratch_folder("planned_record") + "/run.schedule";
  REQUIRE(meshbed("record", options_of(settings) + " --set 'expect={}' --out '" + file + "'").status == 0);
  const auto schedule = schedule_from(file, read_text_file(file));
  std::vector<int> ends;
  for (const auto& item : schedule.items) {
    if (item.kind == meshbed::sim::ItemKind::kEnd) ends.push_back(static_cast<int>(item.index));
  }
  const auto ranks = static_cast<std::ptrdiff_t>(schedule.ranks);
  return {ends.end() - 2 * ranks, ends.end() - ranks};
}

struct Planned {
  Scenario scenario;
  PlannedWork work;
};

void plan(const Settings& settings, Planned* planned) {
  planned->scenario = read_scenario(kScenario, settings);
  const Workload& workload = planned->scenario.workload;
  plan_work(planned->scenario, *meshbed::models::parse_collective(workload.collective),
            parse_data_type("dtype", workload.dtype), &planned->work);
}

/// False: the plugin would relay.
bool compare(const Settings& settings, bool gives_arrivals) {
  CAPTURE(options_of(settings));
  Planned planned;
  plan(settings, &planned);
  std::vector<meshbed::sim::ReplayRecord> records;
  RunResult result;
  try {
    const std::vector<int> arrivals = gives_arrivals ? arrivals_of(settings) : std::vector<int>{};
    result = run_planned(planned.scenario, planned.work, &records, arrivals);
  } catch (const ScenarioError& error) {
    const std::string text = error.what();
    CHECK_MESSAGE(text.find("so that the plugin would relay them; record a run") != std::string::npos, text);
    return false;
  }
  const RealRun real = real_run(settings, records.size());
  const bool is_equal = real.messages == sorted(records);
  CHECK(is_equal);
  CHECK(static_cast<double>(result.time_ps) / 1e3 == real.time_ns);
  for (const auto& proof : result.proofs) CHECK_MESSAGE(proof.ok, proof.name << ": " << proof.detail);
  return true;
}

Settings with(Settings settings, const Settings& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

std::vector<Settings> cases_on(const std::vector<Settings>& cablings, const Settings& algorithms) {
  std::vector<Settings> cases;
  for (const Settings& cabling : cablings) {
    for (const char* collective :
         {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "gather", "scatter"}) {
      for (const char* bytes : {"1K", "50000", "1M", "4M"}) {
        for (const std::string& algorithm : algorithms) {
          cases.push_back(with(cabling, {"workload.collective=" + std::string(collective),
                                         "workload.bytes=" + std::string(bytes), "workload.algorithm=" + algorithm}));
        }
      }
    }
  }
  return cases;
}

}  // namespace

TEST_CASE("planned on cables: every message has the time that it has with the real plugin") {
  const std::vector<Settings> cablings{
      {"topology.nodes=2", "topology.kind=line"},
      {"topology.nodes=3", "topology.kind=ring"},
      {"topology.nodes=4", "topology.kind=full-mesh"},
      {"topology.nodes=6", "topology.kind=full-mesh"},
      {"topology.nodes=8", "topology.kind=ring", "cable.node4-node5.rate=40Gb/s"},
      {"topology.nodes=9", "topology.kind=torus", "topology.shape=[3,3]"},
  };
  const std::vector<Settings> cases =
      walk(cases_on(cablings, {"ring", "tree", "halving-doubling", "direct", "mesh", "auto"}), 16);
  CHECK(std::count_if(cases.begin(), cases.end(), [](const Settings& each) { return compare(each, false); }) > 0);
  CHECK(compare({"topology.nodes=3", "workload.bytes=8", "workload.algorithm=direct"}, false));
}

TEST_CASE("planned on a switch: likewise, where ranks come to the iteration in the run's order") {
  // Two iterations before it: how a rank's thread went round its queues while it connected is forgotten by then.
  std::vector<Settings> cablings;
  for (const char* nodes : {"3", "5", "8", "16"}) {
    cablings.push_back({"topology.nodes=" + std::string(nodes), "topology.kind=switch", "workload.warmup=2"});
  }
  for (const Settings& each : walk(cases_on(cablings, {"ring", "tree", "halving-doubling", "direct", "auto"}), 16)) {
    CHECK(compare(each, true));
  }
}

TEST_CASE("planned over parallel cables: long messages are striped as the real plugin stripes them") {
  const std::vector<Settings> cablings{
      {"topology.nodes=2", "topology.rails=2"},
      {"topology.nodes=3", "topology.rails=3", "workload.channels=2"},
      {"topology.nodes=4", "topology.kind=full-mesh", "topology.rails=2"},
  };
  std::vector<Settings> cases;
  for (const Settings& cabling : cablings) {
    for (const char* collective : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall"}) {
      for (const char* bytes : {"1K", "64K", "4M"}) {
        cases.push_back(with(cabling, {"workload.collective=" + std::string(collective),
                                       "workload.bytes=" + std::string(bytes), "workload.algorithm=ring"}));
      }
    }
  }
  for (const Settings& each : walk(cases, 6)) CHECK(compare(each, false));
}

TEST_CASE("planned are also protocols, channels, half types, slices, roots and buffers out of place") {
  const Settings mesh{"topology.nodes=4", "topology.kind=full-mesh", "workload.algorithm=tree"};
  const std::vector<Settings> kinds{
      {"workload.protocol=ll", "workload.bytes=8K"},
      {"workload.protocol=ll128", "workload.bytes=64K"},
      {"workload.protocol=auto", "workload.algorithm=auto", "workload.bytes=16K"},
      {"workload.channels=3", "workload.bytes=1M"},
      {"workload.dtype=half", "workload.bytes=1M"},
      {"workload.slice_bytes=32K", "workload.bytes=1M", "topology.mtu=1500"},
      {"workload.collective=reduce", "workload.root=2", "workload.bytes=1M"},
      {"workload.collective=alltoall", "workload.in_place=false", "workload.bytes=1M"},
  };
  for (const Settings& each : kinds) CHECK(compare(with(mesh, each), false));
}

TEST_CASE("planned round a ring of cables: as the replay that has one event a slice") {
  for (const char* collective : {"all_reduce", "all_gather", "broadcast"}) {
    for (const char* bytes : {"1K", "50000", "7000K"}) {
      const Settings settings{"topology.nodes=48",
                              "cable.node4-node5.rate=40Gb/s",
                              "replay.detail=plugin",
                              "fabric.fold=false",
                              "workload.algorithm=ring",
                              "workload.collective=" + std::string(collective),
                              "workload.bytes=" + std::string(bytes)};
      CAPTURE(options_of(settings));
      Planned planned;
      plan(settings, &planned);
      const RunResult one = run_planned(planned.scenario, planned.work);
      const RunResult other = run_replay(planned.scenario);
      CHECK(one.time_ps == other.time_ps);
      CHECK(one.messages.messages == other.messages.messages);
      CHECK(one.messages.payload_bytes == other.messages.payload_bytes);
    }
  }
}

TEST_CASE("planned at 1,024 ranks, and what it refuses") {
  const std::string large =
      " --mode replay --set replay.detail=plugin --set topology.kind=switch --set topology.nodes=1024 "
      "--set workload.bytes=64K --set workload.algorithm=tree --results '" +
      scratch_folder("planned_large") + "'";
  const CommandResult one = meshbed("run", large), two = meshbed("run", large);
  REQUIRE(one.status == 0);
  REQUIRE(two.status == 0);
  const json report = json::parse(one.output);
  CHECK(report.at("replayed_algorithm") == "tree");
  CHECK(report.at("digest") == json::parse(two.output).at("digest"));
  CHECK(report.at("passed") == true);

  const auto error_of = [&](const Settings& settings) {
    const CommandResult result =
        run_command_line(meshbed_program() + " run " + scenario_file("scale-ring") +
                         " --mode replay --set replay.detail=plugin" + options_of(settings) + " 2>&1 >/dev/null");
    CHECK(result.status == 2);
    return result.output;
  };
  const auto has = [](const std::string& text, const std::string& part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  has(error_of({"workload.algorithm=tree"}),
      "exchange messages and share no cable and no switch, so that the plugin would relay them; record a run (meshbed "
      "record)");
  has(error_of({"workload.algorithm=tree", "workload.warmup=0"}), "connections are made in a first iteration");
  has(error_of({"workload.algorithm=direct", "topology.kind=full-mesh", "limits.time=1us"}),
      "it takes longer than limits.time, 1.000 us");
  has(error_of({"workload.collective=sendrecv"}), "sendrecv is not replayed");
  has(error_of({"workload.algorithm=direct", "topology.kind=switch", "topology.nodes=65536",
                "management.subnet=198.18.0.0/15"}),
      "4294901760 connections of 65536 ranks take 25165440 MiB of memory");
  has(error_of({"workload.algorithm=tree", "fabric.kind=fluid"}), "it shares links in chunks");
}

}  // namespace planned_replay_test

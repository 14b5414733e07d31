#include "testbed/world/replay/recorded_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "models/algorithm.h"
#include "sim/replay/recorded_replay.h"
#include "sim/trace/digest.h"
#include "testbed/base/files.h"
#include "testbed/base/progress.h"
#include "testbed/base/units.h"
#include "testbed/scenario/placement.h"
#include "testbed/workload/software.h"
#include "testbed/world/replay/replay_run.h"
#include "testbed/world/world.h"

namespace meshbed::testbed {
namespace {

/// Of all ranks: from the first that begins until the last that has ended.
std::vector<IterationTime> calls_of(const sim::RecordedSchedule& schedule, const std::vector<sim::ItemTimes>& times) {
  std::vector<std::size_t> begun(static_cast<std::size_t>(schedule.ranks)), ended(begun);
  std::vector<IterationTime> calls;
  for (std::size_t number = 0; number < schedule.items.size(); ++number) {
    const sim::ScheduleItem& item = schedule.items[number];
    if (item.kind == sim::ItemKind::kPost) continue;
    const bool begins = item.kind == sim::ItemKind::kBegin;
    const std::size_t call = (begins ? begun : ended)[item.index]++;
    if (calls.size() <= call) calls.resize(call + 1);
    const Picoseconds when_ps = times[number].posted_ps;
    IterationTime& time = calls[call];
    if (begins) {
      time.start_ps = time.start_ps < 0 ? when_ps : std::min(time.start_ps, when_ps);
    } else {
      time.end_ps = std::max(time.end_ps, when_ps);
    }
  }
  return calls;
}

sim::Proof all_arrived(const sim::RecordedSchedule& schedule, const std::vector<sim::ItemTimes>& times) {
  std::uint64_t messages = 0, completed = 0;
  for (std::size_t number = 0; number < schedule.items.size(); ++number) {
    if (schedule.items[number].kind != sim::ItemKind::kPost) continue;
    ++messages;
    if (times[number].completed_ps >= 0) ++completed;
  }
  return {.name = "every message arrived and was acknowledged",
          .ok = messages == completed,
          .detail = fmt::format("{} of {}", completed, messages)};
}

std::string csv_of(const sim::RecordedSchedule& schedule, const std::vector<sim::ItemTimes>& times) {
  std::string text =
      "posted_ps,started_ps,delivered_ps,completed_ps,source_rank,destination_rank,source,destination,payload_bytes,"
      "wire_bytes\n";
  for (std::size_t number = 0; number < schedule.items.size(); ++number) {
    const sim::ScheduleItem& item = schedule.items[number];
    if (item.kind != sim::ItemKind::kPost) continue;
    const sim::ScheduleStream& stream = schedule.streams[item.index];
    const sim::ItemTimes& each = times[number];
    text += fmt::format("{},{},{},{},{},{},{},{},{},{}\n", each.posted_ps, each.started_ps, each.delivered_ps,
                        each.completed_ps, stream.source_rank, stream.destination_rank, stream.source_port,
                        stream.destination_port, item.payload_bytes, item.wire_bytes);
  }
  return text;
}

}  // namespace

void check_recordable(const Scenario& scenario) {
  if (!scenario.faults.empty()) {
    throw ScenarioError(scenario.path,
                        fmt::format("record: faults ({}) need the plugin's recovery, which a schedule has not; record "
                                    "the run without them",
                                    name_of(scenario.faults.front().kind)));
  }
  if (std::string_view(fabric_name(scenario)) == "fluid") {
    throw ScenarioError(scenario.path, "record: replays share links in chunks; set fabric.kind = chunk");
  }
}

sim::RecordedSchedule schedule_from(const std::string& file, const std::string& text) {
  std::istringstream stream(text);
  Result<sim::RecordedSchedule> schedule = sim::parse_schedule(stream);
  if (!schedule) throw ScenarioError(file, schedule.error().text);
  return std::move(*schedule);
}

namespace {

/// What a replay of recorded messages cannot follow.
void check_recorded_replay(const Scenario& scenario) {
  const auto refuse = [&](const std::string& what) { throw ScenarioError(scenario.path, "--mode replay: " + what); };
  if (!scenario.faults.empty()) {
    refuse(fmt::format("faults ({}) need the plugin's recovery, which a schedule has not; leave --mode out",
                       name_of(scenario.faults.front().kind)));
  }
  if (std::string_view(fabric_name(scenario)) == "fluid") {
    refuse("recorded messages share links in chunks; set fabric.kind = chunk");
  }
  for (const std::string& each : scenario.overrides) {
    for (const char* key : {"workload.", "models.", "replay.detail"}) {
      if (!each.starts_with(key)) continue;
      refuse(
          fmt::format("--set {}: replay.schedule has the messages of another run, which it does not change; leave it "
                      "out, or record again with it",
                      each));
    }
  }
}

}  // namespace

sim::RecordedSchedule schedule_of(const Scenario& scenario, const RunResult& result, sim::ScheduleRecorder& recorder) {
  std::vector<sim::RecordedCall> calls;
  for (const CallTime& call : result.calls.times) {
    calls.push_back({.rank = call.rank, .begin_ps = call.start_ps, .end_ps = call.end_ps});
  }
  std::stable_sort(calls.begin(), calls.end(), [](const sim::RecordedCall& left, const sim::RecordedCall& right) {
    return left.begin_ps < right.begin_ps;
  });
  Result<sim::RecordedSchedule> schedule = recorder.schedule(calls);
  if (!schedule) throw ScenarioError(scenario.path, "record: " + schedule.error().text);
  schedule->scenario = scenario.name;
  schedule->workload = result.workload;
  schedule->bytes = result.bytes;
  schedule->warmup = result.warmup;
  return std::move(*schedule);
}

ReplayDifference compare_with_run(const Scenario& scenario, const sim::RecordedSchedule& schedule,
                                  sim::ScheduleRecorder& recorder) {
  const models::Cluster cluster = reached_cluster(scenario);
  const Result<sim::RecordedOutcome> outcome = sim::replay_schedule(schedule, cluster);
  if (!outcome) throw ScenarioError(scenario.path, "record: the schedule cannot be replayed: " + outcome.error().text);
  ReplayDifference difference;
  auto record = recorder.messages().begin();
  for (std::size_t number = 0; number < schedule.items.size(); ++number) {
    if (schedule.items[number].kind != sim::ItemKind::kPost) continue;
    const sim::ItemTimes& replayed = outcome->times[number];
    const std::array<std::pair<Picoseconds, Picoseconds>, 4> times{{{record->posted_ps, replayed.posted_ps},
                                                                    {record->started_ps, replayed.started_ps},
                                                                    {record->delivered_ps, replayed.delivered_ps},
                                                                    {record->completed_ps, replayed.completed_ps}}};
    ++record;
    ++difference.messages;
    const auto is_other = [](const auto& each) { return each.first >= 0 && each.first != each.second; };
    const auto found = std::find_if(times.begin(), times.end(), is_other);
    if (found == times.end()) continue;
    if (difference.different++ == 0) {
      difference.first = fmt::format("item {} (stream {}): {} ps in the run, {} ps in the replay", number + 1,
                                     schedule.items[number].index, found->first, found->second);
    }
    for (const auto& [run_ps, replay_ps] : times) {
      if (run_ps < 0) continue;  // flushed when its connection was closed
      difference.largest_ps =
          std::max(difference.largest_ps, std::max(run_ps, replay_ps) - std::min(run_ps, replay_ps));
    }
  }
  return difference;
}

RunResult replay_recorded(const Scenario& scenario, std::string* trace) {
  check_recorded_replay(scenario);
  const std::string beside = path_beside(scenario, scenario.replay_schedule);
  const std::string path = std::filesystem::exists(beside) ? beside : scenario.replay_schedule;
  if (!std::filesystem::exists(path) || std::filesystem::is_directory(path)) {
    throw ScenarioError(scenario.path, fmt::format("replay.schedule: {} {}; `meshbed record` writes one", path,
                                                   std::filesystem::exists(path) ? "is a folder" : "is not there"));
  }
  const sim::RecordedSchedule schedule = schedule_from(path, read_text_file(path));
  const Picoseconds limit_ps = replay_limit_ps(scenario);
  const models::Cluster cluster = reached_cluster(scenario);
  const SimulationProgress progress;
  const Result<sim::RecordedOutcome> outcome =
      sim::replay_schedule(schedule, cluster, {.give_up_ps = limit_ps, .on_progress = &SimulationProgress::show});
  if (!outcome) throw ScenarioError(path, outcome.error().text);
  if (outcome->gave_up) {
    throw ScenarioError(
        scenario.path,
        fmt::format("--mode replay: it takes longer than limits.time, {}; set that higher", duration_text(limit_ps)));
  }
  if (trace != nullptr) *trace = csv_of(schedule, outcome->times);

  RunResult result;
  result.world = run_world(WorldKind::kSimulated).facts();
  result.workload = schedule.workload;
  result.bytes = schedule.bytes;
  result.iteration_times = calls_of(schedule, outcome->times);
  const auto warmup = std::min(static_cast<std::size_t>(schedule.warmup), result.iteration_times.size());
  result.iteration_times.erase(result.iteration_times.begin(),
                               result.iteration_times.begin() + static_cast<std::ptrdiff_t>(warmup));
  result.warmup = schedule.warmup;
  result.iterations = static_cast<int>(result.iteration_times.size());
  for (const IterationTime& time : result.iteration_times) result.time_ps += time.end_ps - time.start_ps;
  result.time_ps = result.iterations > 0 ? result.time_ps / result.iterations : outcome->end_ps;
  if (result.iterations == 0) {  // no calls: the time is the whole run's, of which no bandwidth follows
    result.iterations = 1;
    result.bytes = 0;
  }
  const auto collective = models::parse_collective(schedule.workload);
  if (collective && result.bytes > 0) {
    result.busbw_factor = models::bus_factor(*collective, schedule.ranks);
    if (is_one_a_node(scenario) && ranks_of(scenario) == schedule.ranks) {
      result.bound_ps = any_algorithm_bound_of(scenario, *collective, schedule.bytes);
      result.proofs.push_back(sim::bound_kept("no algorithm is faster", result.time_ps, result.bound_ps));
    }
  }
  result.replay = {
      .detail = "recorded", .schedule = path, .recorded_from = schedule.scenario, .has_calls = result.bytes > 0};
  const std::map<std::string, models::PortRef> ports = sim::ports_by_name(cluster);
  std::vector<sim::PairUsage*> usage;  // [stream]
  for (const sim::ScheduleStream& stream : schedule.streams) {
    usage.push_back(&result.pairs[{stream.source_rank, stream.destination_rank, ports.at(stream.source_port),
                                   ports.at(stream.destination_port)}]);
  }
  sim::Digest digest;
  digest.add(schedule.workload);
  for (std::size_t number = 0; number < schedule.items.size(); ++number) {
    const sim::ItemTimes& each = outcome->times[number];
    digest.add(static_cast<std::uint64_t>(each.posted_ps));
    if (schedule.items[number].kind != sim::ItemKind::kPost) continue;
    digest.add(static_cast<std::uint64_t>(each.delivered_ps));
    const sim::ScheduleItem& item = schedule.items[number];
    ++result.messages.messages;
    result.messages.payload_bytes += item.payload_bytes;
    sim::PairUsage& pair = *usage[item.index];
    ++pair.messages;
    pair.payload_bytes += item.payload_bytes;
    pair.wire_bytes += item.wire_bytes;
  }
  result.digest = digest.hex();
  result.replay->events = result.messages.succeeded = result.messages.messages;
  result.simulation.elapsed_ps = outcome->end_ps;
  result.simulation.links = outcome->links;
  result.proofs.push_back(all_arrived(schedule, outcome->times));
  result.proofs.push_back(sim::bytes_conserved(outcome->links));
  result.proofs.push_back(sim::utilisation_possible(outcome->links, outcome->end_ps, outcome->events));
  return result;
}

}  // namespace meshbed::testbed

#pragma once
// Runs that are recorded as schedules, and replays of these (sim/replay/recorded_schedule.h).

#include <cstdint>
#include <string>

#include "sim/replay/recorded_schedule.h"
#include "sim/replay/schedule_recorder.h"
#include "testbed/scenario/scenario.h"
#include "testbed/workload/result.h"

namespace meshbed::testbed {

/// Throws ScenarioError where runs of this scenario cannot be recorded: faults, or a world other than sim's chunks.
void check_recordable(const Scenario& scenario);

/// Of a run whose messages `recorder` saw. Throws ScenarioError with the first message that cannot be replayed.
sim::RecordedSchedule schedule_of(const Scenario& scenario, const RunResult& result, sim::ScheduleRecorder& recorder);

/// The schedule in the text of `file`. Throws ScenarioError with its line.
sim::RecordedSchedule schedule_from(const std::string& file, const std::string& text);

/// How a replay on the run's own links differs from the run.
struct ReplayDifference {
  std::uint64_t messages = 0;   // compared: when they were posted, started, delivered and completed
  std::uint64_t different = 0;  // of them, those with any other time
  Picoseconds largest_ps = 0;
  std::string first;  // "item 12 (stream 3): ..."; empty: there is none
};
ReplayDifference compare_with_run(const Scenario& scenario, const sim::RecordedSchedule& schedule,
                                  sim::ScheduleRecorder& recorder);

/// The schedule in the file replay.schedule, on the scenario's links. `trace`: gets the text of messages.csv. Throws
/// ScenarioError where the file is no schedule, or the scenario's cabling lacks what it needs.
RunResult replay_recorded(const Scenario& scenario, std::string* trace = nullptr);

}  // namespace meshbed::testbed

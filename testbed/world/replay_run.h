#pragma once
// A scenario's collective as a replay of its schedule (sim/replay/replay.h), without plugin code.

#include <string>
#include <vector>

#include "sim/replay/replay.h"
#include "testbed/scenario/scenario.h"
#include "testbed/workload/result.h"

namespace meshbed::testbed {

/// One iteration. Throws ScenarioError with the file and what a replay does not do: faults, workloads other than a
/// collective, a profile of software costs, several ranks a node, and what sim::replay() refuses.
/// `trace`: gets each simulated message, where replay.detail is plugin.
RunResult run_replay(const Scenario& scenario, std::vector<sim::ReplayRecord>* trace = nullptr);

/// A line a message, in order of posting; times from the start of the iteration.
std::string replay_csv(std::vector<sim::ReplayRecord> messages);

}  // namespace meshbed::testbed

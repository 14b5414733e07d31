#pragma once
// A scenario's collective as a replay of its schedule (sim/replay/replay.h), without plugin code.

#include <vector>

#include "sim/replay/replay.h"
#include "testbed/scenario/scenario.h"
#include "testbed/workload/result.h"

namespace meshbed::testbed {

/// One iteration. Throws ScenarioError with the file and what a replay does not do: faults, workloads other than a
/// collective, a profile of software costs, several ranks a node, and what sim::replay() refuses.
/// `trace`: gets each simulated message, where replay.detail is plugin.
RunResult run_replay(const Scenario& scenario, std::vector<sim::ReplayRecord>* trace = nullptr);

}  // namespace meshbed::testbed

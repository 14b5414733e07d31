#pragma once
// A scenario's collective as a replay of its schedule (sim/replay/replay.h), without plugin code.

#include <cstdint>
#include <string>

#include "models/algorithm.h"
#include "plugin/base/units.h"
#include "testbed/scenario/scenario.h"
#include "testbed/workload/result.h"

namespace meshbed::testbed {

/// One iteration. Throws ScenarioError with the file and what a replay does not do: faults, workloads other than a
/// collective, a profile of software costs, several ranks a node, and what sim::replay() refuses.
/// `trace`: gets messages.csv, a line a message, in order of posting; times from the start of the iteration. Where
/// replay.detail is plugin.
RunResult run_replay(const Scenario& scenario, std::string* trace = nullptr);

/// limits.time, as far as a replay can count.
Picoseconds replay_limit_ps(const Scenario& scenario);
/// The error that the replay takes longer.
[[noreturn]] void refuse_too_long(const Scenario& scenario);

/// No algorithm is faster on the ports of the nodes that have ranks, one rank a node. `bytes` as RunResult::bytes.
Picoseconds any_algorithm_bound_of(const Scenario& scenario, models::Collective collective, std::uint64_t bytes);

}  // namespace meshbed::testbed

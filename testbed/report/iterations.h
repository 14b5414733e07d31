#pragma once
// Iterations: each timed iteration of a collective by itself, with the faults between them, so that before, during and
// after a fault are numbers of their own.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "testbed/workload/result.h"

namespace meshbed::testbed {

/// [{"start_ns", "time_ns"}], in order; start_ns counts from the run's start, or from the first iteration where ranks
/// have a clock each.
nlohmann::ordered_json iterations_json(const RunResult& result);

/// The timed iterations before any fault, while one is active, and after the last has ended.
struct FaultPhase {
  const char* name = "";  // "before", "during", "after"
  int iterations = 0;
  Picoseconds time_ps = 0;  // of one, on average
};
/// Those that have an iteration, in that order; empty where no fault was taken, or times are not of one clock.
std::vector<FaultPhase> fault_phases(const Scenario& scenario, const RunResult& result);
/// [{"phase", "iterations", "time_ns", "algbw_GBps", "busbw_GBps"}]
nlohmann::ordered_json fault_phases_json(const Scenario& scenario, const RunResult& result);

/// The same as a table, each step of a fault before the first iteration that had not ended by then; empty where there
/// are no iterations.
std::vector<std::string> iteration_lines(const Scenario& scenario, const RunResult& result);

}  // namespace meshbed::testbed

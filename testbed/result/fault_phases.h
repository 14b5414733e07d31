#pragma once
// Fault phases: the timed iterations before any fault, while one is active, and after the last has ended.

#include <vector>

#include "testbed/workload/result.h"

namespace meshbed::testbed {

struct FaultPhase {
  const char* name = "";  // "before", "during", "after"
  int iterations = 0;
  Picoseconds time_ps = 0;  // of one, on average
};
/// Those that have an iteration, in that order; empty where no fault was taken, or times are not of one clock.
std::vector<FaultPhase> fault_phases(const Scenario& scenario, const RunResult& result);

}  // namespace meshbed::testbed

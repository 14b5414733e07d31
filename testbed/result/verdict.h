#pragma once
// How a run ended, in a word or a line.

#include <string>

#include "testbed/workload/result.h"

namespace meshbed::testbed {

/// "finished", "stall: ranks poll and nothing happens"
const char* describe(sim::OutcomeKind kind);
/// The same, or "failed" where a rank had an error.
const char* outcome_of(const Simulation& simulation);

/// "FAILED: 2 errors, 1 broken promise"; empty if the run kept its promises.
std::string verdict_line(const RunResult& result);

/// The first failure, in one line; empty if there was none.
std::string failure_line(const RunResult& result);

}  // namespace meshbed::testbed

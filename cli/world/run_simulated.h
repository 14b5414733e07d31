#pragma once
// A scenario's workload in virtual time, from its ranks to proofs and digest.

#include "cli/workload/result.h"
#include "cli/world/simulate.h"

namespace meshbed::cli {

/// Runs scenario.workload in the simulated world; the result carries proofs and digest, but not yet what [expect] and
/// the operating system say. Throws std::runtime_error where the run cannot be set up.
RunResult run_workload(const Scenario& scenario, const SimulateOptions& options, sim::Recorder& recorder);

}  // namespace meshbed::cli

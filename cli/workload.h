#pragma once
// Workload: what a scenario asks to be run, as a program for every rank and the reading of its outcome.

#include "cli/engine.h"
#include "cli/result.h"

namespace meshbed::cli {

/// Runs scenario.workload in the simulated world; the result carries proofs and digest, but not yet what [expect] and
/// the operating system say. Throws std::runtime_error where the run cannot be set up.
RunResult run_workload(const Scenario& scenario, const SimulateOptions& options, sim::Recorder& recorder);

/// The engine as the scenario's [workload] asks for it.
EngineOptions engine_options(const Scenario& scenario, const BuiltFiles& files);

/// The same for each kind; they fill what is theirs and leave the rest to run_workload.
void run_collective(const Scenario& scenario, const SimulateOptions& options, sim::Recorder& recorder,
                    RunResult& result);
void run_nccl_calls(const Scenario& scenario, const SimulateOptions& options, sim::Recorder& recorder,
                    RunResult& result);

}  // namespace meshbed::cli

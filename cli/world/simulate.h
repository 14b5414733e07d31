#pragma once
// Simulate: runs one program on every rank of a scenario's cluster in virtual time, and hands back what happened.
//
// One simulation a process (SimGrid allows one engine).

#include <string>

#include "cli/common/files.h"
#include "cli/scenario/scenario.h"
#include "cli/workload/outcome.h"
#include "cli/workload/rank_host.h"
#include "sim/trace/recorder.h"

namespace meshbed::cli {

struct SimulateOptions {
  BuiltFiles files;
  std::string contexts;  // what threads run on: see sim::WorldOptions
};

/// Throws std::runtime_error where the simulation cannot be set up (a missing library).
Simulation simulate(const Scenario& scenario, const SimulateOptions& options, sim::Recorder& recorder,
                    const RankProgram& program);

}  // namespace meshbed::cli

#pragma once
// Simulate: runs one program on every rank of a scenario's cluster in virtual time, and returns the outcome.
//
// One simulation a process (SimGrid allows one engine).

#include <string>

#include "sim/trace/recorder.h"
#include "testbed/base/files.h"
#include "testbed/scenario/scenario.h"
#include "testbed/workload/outcome.h"
#include "testbed/workload/rank_host.h"

namespace meshbed::testbed {

struct SimulateOptions {
  BuiltFiles files;
  std::string contexts;        // what threads run on: see sim::WorldOptions
  bool for_time_line = false;  // keep what links carried when: see WorldProgram
};

/// Throws std::runtime_error where the simulation cannot be set up (a missing library).
Simulation simulate(const Scenario& scenario, const SimulateOptions& options, sim::Recorder& recorder,
                    const RankProgram& program);

}  // namespace meshbed::testbed

#pragma once
// Runs a scenario's workload in a world that has ranks in this process, from its ranks to proofs and digest.

#include "testbed/world/world.h"

namespace meshbed::testbed {

/// Runs scenario.workload there. Of `program` the caller sets the recorder, and the contexts or the time limit. The
/// result carries proofs and digest, but not yet what [expect] says, and of a simulated run what the operating system
/// does. Throws std::runtime_error where the run cannot be set up.
RunResult run_workload(const RunWorld& world, const Scenario& scenario, WorldProgram program);

}  // namespace meshbed::testbed

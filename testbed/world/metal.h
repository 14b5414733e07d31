#pragma once
// Metal: one rank of a program on this machine, over its RDMA devices. Started once a rank.

#include "testbed/world/metal_place.h"
#include "testbed/world/world.h"

namespace meshbed::testbed {

/// What the run's world is called in its results; set by the emulated world, whose nodes run this.
inline constexpr const char* kWorldNameVariable = "MESHBED_WORLD_NAME";

/// Runs this process's rank. At rank 0 the result is that of all ranks, whose messages the recorder sees where they are
/// traced; elsewhere only the result's errors mean anything. When the time limit has passed the process says so and
/// ends with kExitNoProgress.
/// Throws std::runtime_error where the run cannot be set up: ranks that do not fit the scenario, no rank 0, a missing
/// library.
RunResult run_metal(const Scenario& scenario, const WorldProgram& program);

}  // namespace meshbed::testbed

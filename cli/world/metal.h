#pragma once
// Metal: one rank of a scenario's workload on this machine, over whatever RDMA devices it has. Started once a rank.

#include "cli/common/exit_status.h"
#include "cli/workload/result.h"
#include "cli/world/metal_place.h"

namespace meshbed::cli {

/// What the run's world is called in its results; set by the emulated world, whose nodes run this.
inline constexpr const char* kWorldNameVariable = "MESHBED_WORLD_NAME";
/// "metal", or what that variable says.
std::string metal_world_name();

struct MetalOptions {
  BuiltFiles files;
  double time_limit_s = 300;  // for the whole run; then the process says so and ends with kExitNoProgress
};

/// Runs this process's rank. At rank 0 the result is that of all ranks, whose messages the recorder sees; elsewhere
/// there is no recorder, and only the result's errors mean anything.
/// Throws std::runtime_error where the run cannot be set up: ranks that do not fit the scenario, no rank 0, a missing
/// library.
RunResult run_metal(const Scenario& scenario, const MetalPlace& place, const MetalOptions& options,
                    sim::Recorder* recorder);

}  // namespace meshbed::cli

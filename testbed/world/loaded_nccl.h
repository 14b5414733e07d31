#pragma once
// The libnccl.so.2 that the ranks of a simulation have loaded.

#include <string>

#include "sim/engine/world.h"
#include "testbed/workload/outcome.h"

namespace meshbed::testbed {

/// Of `file`, while the world stands; empty where no rank has loaded it. `profiler`: the plugin that notes what NCCL
/// decides.
LoadedNccl loaded_nccl(const sim::World& world, const std::string& file, const std::string& profiler);

}  // namespace meshbed::testbed

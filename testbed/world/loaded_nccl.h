#pragma once
// The libnccl.so.2 that the ranks of a simulation have loaded, and their programs' calls of it.

#include <string>
#include <vector>

#include "sim/engine/world.h"
#include "sim/host/load/nccl_calls.h"
#include "testbed/workload/outcome.h"

namespace meshbed::testbed {

/// Of `file`, while the world stands; empty where no rank has loaded it. `profiler`: the plugin that notes what NCCL
/// decides.
LoadedNccl loaded_nccl(const sim::World& world, const std::string& file, const std::string& profiler);

/// The programs' calls of NCCL, with one WARN where not all of them were kept.
std::vector<NcclCallSpan> nccl_call_spans(const sim::NcclCalls& kept);

}  // namespace meshbed::testbed

#pragma once
// MetalTrace: the messages of a run over real verbs, collected from all ranks, in the recorder's format.

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "plugin/base/result.h"
#include "sim/trace/recorder.h"
#include "testbed/scenario/scenario.h"
#include "testbed/world/metal_devices.h"

namespace meshbed::testbed {

/// Puts the verbs trace before rdma-core in this process's symbol lookup. To be called before the net plugin is loaded.
/// An error carries the loader's text.
Result<void> start_verbs_trace(const std::string& library);

/// What this process's trace holds; times are relative to `zero_ns` (CLOCK_MONOTONIC), devices by the scenario's
/// names.
nlohmann::json verbs_trace(std::int64_t zero_ns, const MetalDevices& devices);

/// Joins the ranks' traces (by rank), and shows each message to the recorder in the order in which they were posted.
/// The other end of a queue pair is the one with its number and GID. Times are each rank's own; what real hardware does
/// not tell (wire times and bytes, tries) is -1 or 0. Throws nlohmann::json::exception where a trace is not one.
void replay_traces(const Scenario& scenario, const std::vector<nlohmann::json>& traces, sim::Recorder& recorder);

}  // namespace meshbed::testbed

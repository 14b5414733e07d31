#pragma once
// A run on one time line in Perfetto's own format (sim/perfetto/track_writer.h). Processes are the nodes, from pid 1;
// their tracks are ranks (calls, isend, irecv, rings with a track a slot, GPU streams), NICs, and the outgoing traffic
// of each cable (utilisation and queue depth). Flows lead from isend over the wire to irecv. Faults have a separate
// track.

#include <string>
#include <vector>

#include "testbed/result/trace_file.h"
#include "testbed/workload/result.h"

namespace meshbed::testbed {

/// The same run gives the same bytes. Utilisation and GPU streams are there where the run kept them
/// (WorldProgram::for_time_line).
std::string track_events(const Scenario& scenario, const RunResult& result, const std::vector<TracedMessage>& messages);

}  // namespace meshbed::testbed

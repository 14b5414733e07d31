#pragma once
// A run on one time line, for Perfetto and chrome://tracing: the ranks' collectives, the messages on the wire, the
// slots of megakernels' rings, and the faults.
//
// The trace event format's JSON object ("Trace Event Format", Google, 2016): one process a rank; collectives are
// complete events ("X"), messages and slots asynchronous pairs ("b", "e"), since any number of them may overlap; faults
// are instants ("i"). Times are microseconds with six decimals: exact picoseconds of virtual time.

#include <string>
#include <vector>

#include "testbed/result/trace_file.h"
#include "testbed/workload/result.h"

namespace meshbed::testbed {

/// Deterministic: events in order of their kind, then as they stand in `messages` and `result`.
std::string perfetto_trace(const Scenario& scenario, const RunResult& result,
                           const std::vector<TracedMessage>& messages);

}  // namespace meshbed::testbed

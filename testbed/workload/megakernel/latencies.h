#pragma once
// Latencies of slots, from a run's trace: their distribution by kind of slot.

#include <string>
#include <vector>

#include "testbed/workload/megakernel/outcome.h"

namespace meshbed::testbed {

/// Of the slots of one group.
struct RingLatency {
  std::string group, name;  // "all" "", "opcode" "PUT", "rank" "0", "tenant" "3", "priority" "HIGH"
  // queueing: from its arrival at the host until a lane claims it; execution: from there until it is done; completion:
  // both. Slots that yield or come again count from their arrival to their last end.
  std::string part;
  std::size_t count = 0;
  Picoseconds p50_ps = 0, p90_ps = 0, p99_ps = 0, most_ps = 0;
};

/// Percentiles are those of rank ceil(p n) of the sorted values. Of a GPU, whose claims the host does not see,
/// completion alone. Groups with one member that is all of them are left out. O(events log events).
std::vector<RingLatency> latencies_of(const RingOutcome& outcome);

}  // namespace meshbed::testbed

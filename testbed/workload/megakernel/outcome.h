#pragma once
// RingOutcome: the results of a run's megakernels, in addition to those of every run.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugin/ring/kernel/wait_chain.h"
#include "testbed/workload/megakernel/host.h"
#include "testbed/workload/megakernel/times.h"

namespace meshbed::testbed {

/// What one ring of one rank did.
struct RingRank {
  int rank = 0, ring = 0;
  bool reached = false;  // its end
  std::uint32_t lanes = 0, slots = 0;
  RingLaunch launch{};
  RingCreditWaits credit_waits{};
  RingWatch watch{};
  // From the trace, measure_rings():
  std::uint64_t published = 0, ended = 0;  // slots; those that yielded and faulted end, too
  Picoseconds span_ps = 0;                 // from the first publication to the last end
  std::uint64_t depth_most = 0;            // slots published and not done
  double depth_mean = 0;                   // over the span
  bool saw_lanes = true;                   // false: a GPU's, of which the host sees publish and done alone
  double lanes_idle = 1;                   // share of the lanes' time in the span in which they had no slot

  /// Slots that ended in a second; 0: nothing took any time.
  double slots_per_s() const;
};

/// From the host's call of a program's epoch to its fence.
struct RingCall {
  int rank = 0;
  Picoseconds start_ps = 0, end_ps = 0;
};

struct RingOutcome {
  int rings = 1;  // of each rank
  std::string program;
  std::vector<std::string> tenants;  // names by number, of a slot graph; empty: they have none
  std::vector<RingTime> times;
  std::vector<RingVerdict> verdicts;     // by rank, then by ring
  std::vector<RingRank> ranks;           // likewise
  std::vector<RingCall> calls;           // of programs, as they ended
  std::vector<std::string> doorbells{};  // likewise: WQEs that wait for a doorbell, in words
  ring::WaitChain waits;                 // over all ranks' rings, when the first of them was found stuck; else empty
  std::vector<RingToken> tokens;         // of decode: by initiation, means over tokens and ranks
  int layers = 0;                        // of each token
  RingTrace trace;
  std::uint64_t slots_done = 0;
  std::shared_ptr<const ring::RecordedWork> recorded;  // what was published in the place of drawn items; else nullptr
};

/// Fills in of each ring what its trace says. One pass over the events.
void measure_rings(RingOutcome& outcome);

}  // namespace meshbed::testbed

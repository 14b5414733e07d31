#pragma once
// RingOutcome: what a run's megakernels have to say beside what every run says.

#include <cstdint>
#include <vector>

#include "cli/workload/megakernel/host.h"
#include "cli/workload/megakernel/times.h"

namespace meshbed::cli {

struct RingOutcome {
  std::vector<RingTime> times;
  std::vector<RingVerdict> verdicts;  // by rank
  RingTrace trace;
  std::uint64_t slots_done = 0;
};

}  // namespace meshbed::cli

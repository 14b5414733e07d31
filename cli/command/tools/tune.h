#pragma once
// meshbed tune: the fastest algorithm and protocol on a scenario's cabling, size by size, as a table that the engine
// and NCCL's example tuner read (plugin/coll/plan/tuning.h).

#include <cstdint>
#include <vector>

#include "cli/common/command_line.h"
#include "plugin/coll/plan/tuning.h"

namespace meshbed::testbed {

/// What was the fastest for each size of a sweep, ascending.
struct Winner {
  std::uint64_t bytes = 0;
  coll::Algorithm algorithm = coll::Algorithm::kRing;
  coll::Protocol protocol = coll::Protocol::kSimple;
  double time_us = 0, ring_us = 0;  // its own, and that of the ring by the protocol simple
};
/// A row for each run of equal winners: from behind the size before to the last of them; the first from 0, the last
/// without end.
coll::TuningTable rows_of(coll::Collective collective, int ranks, const std::vector<Winner>& winners);

}  // namespace meshbed::testbed

#pragma once
// meshbed bench planner: a collective on seven cablings, in virtual time: round the ring, by trees (where it has none,
// that is the ring), by what the engine chooses itself ("auto"), and what no algorithm can beat there.
//
// The bound is the best of all bounds by cuts, of which a rank's own ports are one: an all_reduce's is bytes over the
// cabling's strength (models/strength.h), the others' are models/cut.h's. It counts neither headers nor latency. The
// root is rank 0.

#include <iosfwd>

#include "cli/common/command_line.h"

namespace meshbed::testbed {

int bench_planner_command(const Arguments& arguments, std::ostream& out);

}  // namespace meshbed::testbed

#pragma once
// meshbed bench planner: an all-reduce on seven cablings, in virtual time: round the ring, by trees, by what the engine
// chooses itself ("auto"), and what no algorithm can beat there.
//
// The bound is bytes over the cabling's strength (models/strength.h): the best of all bounds by cuts, of which a rank's
// own ports are one. It counts neither headers nor latency.

#include <iosfwd>

#include "cli/command.h"

namespace meshbed::cli {

int bench_planner_command(const Arguments& arguments, std::ostream& out);

}  // namespace meshbed::cli

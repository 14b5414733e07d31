#pragma once
// meshbed ring bench: the speed of decoding rings, relative to the rate of a copy in the same run, the round-trip time
// of a slot between two threads, and the number of slots that a CPU second simulates.

#include <iosfwd>

#include "cli/common/command_line.h"

namespace meshbed::testbed {

int ring_bench_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshbed::testbed

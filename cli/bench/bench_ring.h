#pragma once
// meshbed ring bench: how fast rings are decoded, as a share of what a copy moves through memory in the same run, how
// long a slot takes from one thread to another and back, and how many slots a CPU second simulates.

#include <iosfwd>

#include "cli/common/command_line.h"

namespace meshbed::testbed {

int ring_bench_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshbed::testbed

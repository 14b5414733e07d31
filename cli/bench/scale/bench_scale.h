#pragma once
// `meshbed bench scale`: what replays of thousands of ranks cost, in CPU time, memory and instructions.

#include <iosfwd>

#include "cli/common/command_line.h"

namespace meshbed::testbed {

int bench_scale_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshbed::testbed

#pragma once
// meshbed fuzz --faults: runs random fault schedules (fault_schedule.h) in the simulated world, each in a process of
// its own, and says which of them end with wrong data, a broken proof, an error, or not at all.

#include <iosfwd>

#include "cli/command.h"

namespace meshbed::cli {

int fuzz_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshbed::cli

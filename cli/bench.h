#pragma once
// meshbed bench: what a simulated message, a rank and a library copy cost on this machine.
//
// Speed is CPU time (never wall time) and comes with its provenance; nothing here is a test.

#include "cli/command.h"

namespace meshbed::cli {

int bench_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshbed::cli

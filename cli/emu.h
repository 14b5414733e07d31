#pragma once
// meshbed emu up|down|status: a scenario's cluster in this host's own kernel, until it is taken down.

#include "cli/command.h"

namespace meshbed::cli {

/// 0: done, or nothing to do; 1 (status): a set-up was broken off and is to be taken down.
int emu_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshbed::cli

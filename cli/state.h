#pragma once
// meshbed state: what the mesh plugins of running jobs on this machine are doing, and whom they wait for.

#include "cli/command.h"

namespace meshbed::cli {

int state_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshbed::cli

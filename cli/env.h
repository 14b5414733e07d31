#pragma once
// meshbed env: every variable that the net plugin reads, with the value in force and where it comes from.

#include "cli/command.h"

namespace meshbed::cli {

int env_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshbed::cli

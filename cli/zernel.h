#pragma once
// meshbed zernel: reads streams of zernel's records back, and prints what zernel would say of them.

#include "cli/command.h"

namespace meshbed::cli {

int zernel_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshbed::cli

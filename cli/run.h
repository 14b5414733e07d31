#pragma once
// meshbed run SCENARIO: runs the scenario's workload, proves the result, and leaves it under results/.

#include "cli/command.h"

namespace meshbed::cli {

int run_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshbed::cli

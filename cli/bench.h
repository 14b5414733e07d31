#pragma once
// meshbed bench: what a simulated message, a rank and a library copy cost on this machine.
//
// Speed is CPU time (never wall time) and comes with its provenance; nothing here is a test.

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "cli/command.h"

namespace meshbed::cli {

/// What figures were measured on, and with.
nlohmann::json bench_provenance();

/// Of this process, all threads.
double cpu_seconds();

/// Of two in the middle, their mean. There must be values.
double median(std::vector<double> values);

int bench_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshbed::cli

#pragma once
// meshbed bench cost: how many instructions a message costs in the plugin. Callgrind counts them between the two ends
// of one connection on the null wire (cli/cost): from the call of irecv, isend and of the tests that complete both to
// their return, without the wire's own. A number that does not depend on the machine's load, only on the plugin's file.

#include <iosfwd>

#include "cli/command.h"

namespace meshbed::cli {

int bench_cost_command(const Arguments& arguments, std::ostream& out);

}  // namespace meshbed::cli

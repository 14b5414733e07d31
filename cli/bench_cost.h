#pragma once
// meshbed bench cost: how many instructions a message costs in the plugin. Callgrind counts them between the two ends
// of one connection on the null wire (cli/cost): from the call of irecv, isend and of the tests that complete both to
// their return, without the wire's own. And what a message of 128 KiB, two pieces, costs a relay: all that its
// service thread does from the clear-to-send to the confirmation. Numbers that depend on
// the plugin's file, not on the machine's load; the relay's by some percent, as the service may see two pieces at once.

#include <iosfwd>

#include "cli/command.h"

namespace meshbed::cli {

int bench_cost_command(const Arguments& arguments, std::ostream& out);

}  // namespace meshbed::cli

#pragma once
// meshbed bench cost: how many instructions a message costs in the plugin. Callgrind counts them between the two ends
// of one connection on the null wire (cli/bench/cost): from the call of irecv, isend and of the tests that complete
// both to their return, without the wire's own. And what a message of 128 KiB, two pieces, costs a relay: all that its
// service thread does from the clear-to-send to the confirmation. Numbers that depend on the plugin's file, not on the
// machine's load; the relay's by a few percent, as the service may be woken by what it did itself before or after it
// looked.
// And what one takes the engine, libmeshcoll's file, at both ends together: over a net plugin that moves nothing
// (cli/bench/cost/null_net.h), in a send_recv, and in an all_reduce round the ring, where half of the messages are
// added up.
//
// Beside them the relay's CPU time by its thread's clock, without callgrind, and with what the null wire takes (which
// copies no payload, as that is an adapter's work): nanoseconds of this machine. Sleeping and waking are the kernel's,
// some microseconds for each step, and a burst needs them once: so one more message of a burst is told from one alone.

#include <iosfwd>

#include "cli/common/command_line.h"

namespace meshbed::testbed {

int bench_cost_command(const Arguments& arguments, std::ostream& out);

}  // namespace meshbed::testbed

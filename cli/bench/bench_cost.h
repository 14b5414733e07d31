#pragma once
// meshbed bench cost: the number of instructions that a message costs in the plugin. Callgrind counts them between the
// two ends of one connection on the null wire (cli/bench/cost): from the call of irecv, isend and of the tests that
// complete both to their return, without the wire itself. For a relay it counts a message of 128 KiB (two pieces): all
// work of its service thread from the clear-to-send to the confirmation. The numbers depend on the plugin's file and
// not on the machine's load, except that the relay's vary by a few percent: its own events may wake the service before
// or after it polls. Also counted is the engine, libmeshcoll's file, at both ends together: over a net plugin that
// moves no data (cli/bench/cost/null_net.h), in a send_recv, and in an all_reduce over a ring, where half of the
// messages are reduced.
//
// In addition the relay's CPU time is measured by its thread's clock, without callgrind, in nanoseconds of this
// machine. It includes the null wire, which copies no payload, as that is an adapter's work. Sleeping and waking are
// done by the kernel and take some microseconds for each step, once for a burst. So the cost of one more message in a
// burst is reported separately from the cost of a single message.

#include <iosfwd>

#include "cli/common/command_line.h"

namespace meshbed::testbed {

int bench_cost_command(const Arguments& arguments, std::ostream& out);

}  // namespace meshbed::testbed

#pragma once
// meshbed bench perftest: the net plugin against Debian's perftest, by turns, on the same pair of nodes.
//
// Bandwidth against ib_write_bw with as many messages under way; the latency of a send that has to wait for its
// clear-to-send against ib_write_lat, of which it is two. Wall time, medians; nothing here is a test.

#include "cli/common/command_line.h"

namespace meshbed::testbed {

int bench_perftest_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshbed::testbed

#pragma once
// meshbed bench perftest: compares the net plugin with Debian's perftest, alternately, on the same pair of nodes.
//
// Bandwidth is compared with ib_write_bw with the same number of messages under way. The latency of a send that waits
// for its clear-to-send is compared with twice that of ib_write_lat. Wall time, medians; nothing here is a test.

#include "cli/common/command_line.h"

namespace meshbed::testbed {

int bench_perftest_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshbed::testbed

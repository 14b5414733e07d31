#pragma once
// meshbed bench reduce: how fast the engine's reduction kernels are, as a share of what a copy moves through memory in
// the same run (as STREAM's Copy counts: one read and one written byte each; a reduction reads two and writes one). By
// turns, for a shared machine is faster or slower from one second to the next; the share is the median of neighbours.
// With --gpu the kernels of a GPU (bench_reduce_gpu.h).

#include <iosfwd>

#include "cli/common/command_line.h"

namespace meshbed::testbed {

int bench_reduce_command(const Arguments& arguments, std::ostream& out);

}  // namespace meshbed::testbed

#pragma once
// meshbed bench reduce: the speed of the engine's reduction kernels, relative to the rate of a copy in the same run (as
// STREAM's Copy counts: one read and one written byte each; a reduction reads two and writes one). The two alternate,
// because the speed of a shared machine varies from one second to the next; the result is the median over neighbouring
// pairs. With --gpu the kernels of a GPU (bench_reduce_gpu.h).

#include <iosfwd>

#include "cli/common/command_line.h"

namespace meshbed::testbed {

int bench_reduce_command(const Arguments& arguments, std::ostream& out);

}  // namespace meshbed::testbed

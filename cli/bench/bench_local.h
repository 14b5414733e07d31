#pragma once
// bench local: an all-reduce between the processes of this machine, alternately by the engine over the local net plugin
// and by Open MPI's MPI_Allreduce.

#include <iosfwd>

#include "cli/common/command_line.h"

namespace meshbed::testbed {

/// Where there is no mpirun it says so, and ends well.
int bench_local_command(const Arguments& arguments, std::ostream& out);

}  // namespace meshbed::testbed

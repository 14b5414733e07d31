#pragma once
// The processors that a command may use.

namespace meshbed::testbed {

/// How many this process may run on, at least 1: an MPI job, a batch system or taskset may have bound it to a few of
/// the machine's (sched_getaffinity(2)).
int own_processors();

}  // namespace meshbed::testbed

#pragma once
// Part: one of several processes that share a sweep, as MPI or a Slurm job array starts them. Pure functions of the
// environment; any thread.

#include <string>

#include "testbed/base/environment.h"

namespace meshbed::testbed::sweep {

/// It runs the points index, index + count, index + 2 count, .... The last part to end makes the table.
struct Part {
  int index = 0, count = 1;
  std::string job;  // the same in all parts of one job, and no other job's; empty: count is 1
};

/// This process among the ranks of its MPI job (Open MPI 4 and 5: OMPI_COMM_WORLD_RANK and PMIX_NAMESPACE; MPICH and
/// srun: PMI_RANK and PMI_JOBID or SLURM_JOB_ID). Outside a job, and of a job of one rank: the only part. Throws
/// std::runtime_error for variables that contradict each other.
Part mpi_part(const Lookup& environment);

/// This process among the tasks of its Slurm job array (SLURM_ARRAY_TASK_ID, ..._MIN, ..._COUNT, SLURM_ARRAY_JOB_ID).
/// Throws std::runtime_error outside one.
Part slurm_part(const Lookup& environment);

/// A batch script of Slurm that runs `command` in `folder` as an array of `tasks` tasks.
std::string slurm_script(const std::string& command, const std::string& folder, int tasks);

}  // namespace meshbed::testbed::sweep

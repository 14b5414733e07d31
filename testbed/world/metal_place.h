#pragma once
// MetalPlace: the rank of this process and the address of rank 0, from the launcher's variables in the environment.

#include <string>

#include "testbed/base/environment.h"

namespace meshbed::testbed {

struct MetalPlace {
  int rank = 0;
  int ranks = 1;
  std::string address;  // of rank 0
  int port = 29'500;    // MASTER_PORT
  std::string said_by;  // "RANK and WORLD_SIZE"
  std::string job_key;  // MESHBED_JOB_KEY; empty: none
};

/// RANK and WORLD_SIZE (torchrun, or by hand), else OMPI_COMM_WORLD_RANK and _SIZE (Open MPI's mpirun), PMI_RANK and
/// PMI_SIZE (MPICH), SLURM_PROCID and SLURM_NTASKS (srun); rank 0's address is MASTER_ADDR, its ports are MASTER_PORT +
/// 1 (the meeting of the ranks) and + 2 (the engine's), for MASTER_PORT itself is torchrun's own; MESHBED_JOB_KEY keeps
/// strangers out. Throws std::runtime_error with what is missing or wrong, and how to set it.
MetalPlace metal_place(const Lookup& lookup);

/// A new value of MESHBED_JOB_KEY. Throws std::runtime_error where the kernel gives no random bits.
std::string new_job_key();

}  // namespace meshbed::testbed

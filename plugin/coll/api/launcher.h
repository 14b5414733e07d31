#pragma once
// Launcher: the rank, the world and the address of rank 0 in the environment, as torchrun, mpirun and srun set them.
// Pure, but for the resolution of names.

#include <functional>
#include <optional>
#include <string>

#include "plugin/base/result.h"

namespace meshbed::coll {

struct Launch {
  int rank = 0, world = 1;
  std::string bootstrap{};  // "ADDRESS:PORT", "/KEY" behind it where there is one; empty where the world is one rank
};

/// The first of these that is set gives rank and world: RANK and WORLD_SIZE; OMPI_COMM_WORLD_RANK and _SIZE;
/// SLURM_PROCID and SLURM_NTASKS. Rank 0 is met at MASTER_ADDR, a name or an address, without it at the first node of
/// SLURM_STEP_NODELIST, or at the loopback where OMPI_COMM_WORLD_LOCAL_SIZE shows that all ranks are on one machine; at
/// port MASTER_PORT, or 29500. Where torchrun keeps that port for its own store (TORCHELASTIC_USE_AGENT_STORE), at the
/// next one. An error names the variable, its value and what to set.
Result<Launch> read_launcher(const std::function<std::optional<std::string>(const char* name)>& variable);
/// Whether one of them gives a rank.
bool has_launcher(const std::function<std::optional<std::string>(const char* name)>& variable);

}  // namespace meshbed::coll

#pragma once
// EmulatedGpus: simulated GPUs in emulated nodes. A program there finds the drop-ins of CUDA by the loader's path, with
// its node's GPUs to itself: models of its own process, whose time is the node's clock's (sim/cuda/process).

#include <string>
#include <utility>
#include <vector>

#include "models/cluster.h"

namespace meshbed::cli {

/// What a program in the node has to have in its environment; nothing where the node has no GPU, or one that there is
/// no model of, or where the simulated CUDA is not built. `library_path`: where else its loader looks, before; with
/// colons between.
std::vector<std::pair<std::string, std::string>> gpu_environment(const models::Node& node,
                                                                 const std::string& library_path);

}  // namespace meshbed::cli

#pragma once
// CUDA for ranks. In a simulated node: one simulator's GPUs, which its ranks share (sim/cuda/world). In an emulated
// node a program finds the drop-ins by the loader's path, and has its node's GPUs to itself: models in its own process,
// whose time is the node's clock (sim/cuda/process).

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/cluster.h"
#include "sim/cuda/world/world_cuda.h"
#include "testbed/scenario/scenario.h"
#include "testbed/workload/outcome.h"

namespace meshbed::testbed {

/// Whether a node has a GPU of a known model.
bool has_gpus(const models::Cluster& cluster);
/// Whether the scenario's ranks load the simulated CUDA in the simulated world.
bool calls_cuda(const Scenario& scenario);

/// `folder`: of the simulated CUDA's libraries. nullopt: no rank of the scenario calls CUDA, and none finds any.
std::optional<sim::CudaFiles> cuda_files_of(const Scenario& scenario, const std::string& folder);

/// What a program in an emulated node has to have in its environment; nothing where the node has no GPU, or one that
/// there is no model of, or where the simulated CUDA is not built. `library_path`: where else its loader looks, before;
/// with colons between.
std::vector<std::pair<std::string, std::string>> gpu_environment(const models::Node& node,
                                                                 const std::string& library_path);

/// What the ranks' GPUs did since WorldCuda::keep_spans(), as it ended.
std::vector<GpuSpan> gpu_spans(const sim::WorldCuda& gpus);

}  // namespace meshbed::testbed

#pragma once
// Programs with GPUs as processes of a simulated cluster: several of them on a node share its GPUs.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/cuda/world/world_cuda.h"
#include "sim/host/host.h"
#include "sim/verbs/verbs_host.h"
#include "tests/cuda/entry.h"
#include "tests/support/run_world.h"

namespace meshbed::test {

struct RankProgram {
  int node = 0;
  std::function<void()> body;  // with the primary context of the node's first GPU current
};

/// Two nodes with one H100 each, whose adapters know dma-bufs; what was said on standard error.
inline std::string run_gpu_ranks(const std::vector<RankProgram>& programs) {
  models::Cluster cluster = ring_cluster(2);
  for (models::Node& node : cluster.nodes) {
    node.gpus = {{"H100"}};
    for (models::Nic& nic : node.nics) nic.dma_buf = true;
  }
  const auto result = run_world({.cluster = cluster}, [&programs](sim::World& world) {
    sim::install_host(world, {});
    sim::install_verbs(world, MESHBED_BINARY_DIR "/sim-lib/libibverbs.so.1", nullptr);
    static std::unique_ptr<sim::WorldCuda> gpus;  // in a process of its own, until its end
    gpus = std::make_unique<sim::WorldCuda>(world, sim::cuda_files_in(MESHBED_BINARY_DIR "/cuda-lib"));
    for (std::size_t rank = 0; rank < programs.size(); ++rank) {
      sim::Process& process =
          world.add_process(static_cast<int>(rank), programs[rank].node, "rank" + std::to_string(rank));
      world.spawn(process, "main", [body = programs[rank].body] {
        const Gpu gpu;
        body();
      });
    }
  });
  return result.output;
}

/// The calling rank goes on at that time.
inline void wait_until(Picoseconds when_ps) {
  sim::World& world = sim::World::get();
  if (when_ps > world.now()) world.spend(when_ps - world.now());
}

}  // namespace meshbed::test

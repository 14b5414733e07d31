#pragma once
// WorldCuda: the GPUs of a simulated cluster's nodes, and the CUDA that simulated processes have of them.
//
// A process finds the drop-ins under the names of NVIDIA's libraries (dlopen of libcuda.so.1 or libcudart.so.13, or as
// dependencies of its files), sees the GPUs of its node, or those of CUDA_VISIBLE_DEVICES, and has contexts, streams
// and memory of its own. Work of GPUs takes virtual time of the World; a thread that waits for one blocks in the World.
// Device memory is sim/host's (device_memory.h), so adapters reach it by the node's gpu_direct setting. Two processes
// on a node share its GPUs' engines and SMs.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/cuda/process/world_entry.h"
#include "sim/cuda/record.h"
#include "sim/engine/world.h"

namespace meshbed::sim {

struct CudaFiles {
  std::string implementation;  // path of libmeshbed-cuda.so
  std::string driver;          // of the drop-in libcuda.so.1
  std::string runtime;         // of libcudart.so.13; empty: processes find none
  std::string nvml;            // of libnvidia-ml.so.1; likewise
  std::string cache{};         // folder: cuda::Host::cache_folder()
};

/// Those of a build: all in its folder of CUDA libraries; the runtime and NVML only where `runtime` asks for them.
CudaFiles cuda_files_in(const std::string& folder, bool runtime = false);

using CudaCounts = cuda::WorkCounts;

class WorldCuda {
 public:
  /// After install_host(), before the World runs; destroyed before the World. One at a time. Throws std::runtime_error
  /// where a file cannot be loaded (with what builds it) or there is no model of a node's GPU.
  WorldCuda(World& world, const CudaFiles& files);
  ~WorldCuda();
  WorldCuda(const WorldCuda&) = delete;
  WorldCuda& operator=(const WorldCuda&) = delete;

  /// What the GPUs do from now on is kept.
  void keep_spans();
  /// What they did, as it ended, each with the process that it was done for.
  std::vector<std::pair<const Process*, cuda::Span>> spans() const;

 private:
  class WorldHost;
  std::unique_ptr<WorldHost> host_;
};

/// Of a process; nothing where it has not called CUDA.
CudaCounts cuda_counts_of(const Process& process);

}  // namespace meshbed::sim

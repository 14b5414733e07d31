#pragma once
// WorldCuda: the GPUs of a simulated cluster's nodes, and the CUDA that simulated processes have of them.
//
// A process finds the drop-ins by the names that it would find NVIDIA's by (dlopen of libcuda.so.1 or libcudart.so.13,
// or as what its files need), sees the GPUs of its node, or those of CUDA_VISIBLE_DEVICES, and has contexts, streams
// and memory of its own. What GPUs do takes virtual time of the World's; a thread that waits for one blocks in the
// World. Device memory is sim/host's (device_memory.h), so adapters reach it as the node's gpu_direct says. Two
// processes on a node share its GPUs' engines and SMs.

#include <cstdint>
#include <memory>
#include <string>

#include "sim/engine/world.h"

namespace meshbed::sim {

struct CudaFiles {
  std::string driver;   // path of the drop-in libcuda.so.1
  std::string runtime;  // of libcudart.so.13; empty: processes find none
};

/// What a process has made its GPUs do.
struct CudaCounts {
  std::uint64_t launches = 0;  // of kernels
  std::uint64_t copies = 0;    // of all kinds
  std::uint64_t copied_bytes = 0;
  /// Waits for all of a device's work: cuCtxSynchronize and its like, and the calls that wait so without saying
  /// (cuMemFree).
  std::uint64_t device_syncs = 0;
};

class WorldCuda {
 public:
  /// After install_host(), before the World runs; destroyed before the World. One at a time. Throws std::runtime_error
  /// where a file cannot be loaded or there is no model of a node's GPU.
  WorldCuda(World& world, const CudaFiles& files);
  ~WorldCuda();
  WorldCuda(const WorldCuda&) = delete;
  WorldCuda& operator=(const WorldCuda&) = delete;

 private:
  class WorldHost;
  std::unique_ptr<WorldHost> host_;
};

/// Of a process; nothing where it has not called CUDA.
CudaCounts cuda_counts_of(const Process& process);

}  // namespace meshbed::sim

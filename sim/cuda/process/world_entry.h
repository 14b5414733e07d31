#pragma once
// WorldEntry: the simulated CUDA as a World has it. libmeshbed-cuda.so exports one (kWorldEntry), and a World loads
// that file only if ranks use GPUs: without GPUs it need not be built.

#include <cstdint>

#include "sim/cuda/backend.h"
#include "sim/cuda/host.h"
#include "sim/cuda/record.h"
#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {

/// What a process has made its GPUs do.
struct WorkCounts {
  std::uint64_t launches = 0;     // of kernels
  std::uint64_t copies = 0;       // of all kinds
  std::uint64_t host_copies = 0;  // of these, from and to host memory
  std::uint64_t copied_bytes = 0;
  /// Waits for all of a device's work: cuCtxSynchronize and its like, and the calls that wait so without saying
  /// (cuMemFree).
  std::uint64_t device_syncs = 0;
};

struct WorldEntry {
  std::uint32_t version;      // kTableVersion
  std::uint64_t size_bytes;   // of this
  const DriverTable* driver;  // whose calls take no turn: threads of a World run one at a time
  const RuntimeTable* runtime;
  const NvmlTable* nvml;
  /// One at a time. Throws std::runtime_error where there is no model of a GPU.
  void (*open)(Host& host, const GpuNames& gpus);
  void (*close)();
  /// Nothing where the process has not called CUDA, or nothing is open.
  WorkCounts (*counts)(ProcessKey process);
  /// Whether the process has called CUDA.
  bool (*in_use)(ProcessKey process);
  /// From now on what the GPUs do is kept, and what they have done since; of what is open.
  void (*keep_spans)();
  const Record& (*record)();
};

/// The symbol: const WorldEntry*().
inline constexpr const char* kWorldEntry = "meshbed_cuda_world";

}  // namespace meshbed::sim::cuda

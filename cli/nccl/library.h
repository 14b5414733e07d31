#pragma once
// NcclLibrary: the contents of a user's own build of libnccl.so, and whether it can run over the simulated CUDA here.
// None of it is loaded or executed.

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace meshbed::testbed {

/// What the file says of itself.
struct NcclLibrary {
  std::string version, cuda_version;          // "2.30.7", "13.0"; cuda_version empty: not said
  std::set<std::uint32_t> ptx, machine_code;  // architectures: 90 for compute_90, sm_90
  std::size_t ptx_texts = 0;
  std::uint64_t ptx_bytes = 0;       // as they stand in the file, compressed or not
  std::string cuda_runtime;          // "libcudart.so.13"; empty: linked in statically
  bool shared_cxx_runtime = false;   // libstdc++.so.6
  std::vector<std::string> refused;  // functions of CUDA and NVML that it knows by name and that are refused here
};

/// Throws std::runtime_error: it cannot be read, is no ELF file, or not NVIDIA's NCCL, each with the reason.
NcclLibrary inspect_nccl(const std::string& path);

/// "compute_80, compute_90"; "none".
std::string architecture_names(const std::set<std::uint32_t>& architectures, const char* prefix);

/// Whether the library runs on one GPU model.
struct NcclOnGpu {
  std::string gpu;
  std::uint32_t architecture = 0;
  std::string obstacle;  // empty: it runs
};

/// What keeps it from running on any of them, each with what to do; empty: nothing.
std::vector<std::string> obstacles_of(const NcclLibrary& library);
/// By GPU model (models/gpu.h), in the models' order.
std::vector<NcclOnGpu> nccl_on_gpus(const NcclLibrary& library);

/// The sizes that NCCL's host part takes for a GPU of this architecture and its kernels take for the one that they are
/// compiled for: they must be equal. NCCL v2.30.7-1, src/include/device.h: ncclCollUnroll (535-538),
/// ncclShmemScratchWarpSize (552-561), ncclMaxDevWorkBatchBytes (385-387).
struct NcclSizes {
  int unroll = 0;
  bool nvls = false;
  int batch_bytes = 0;
  bool operator==(const NcclSizes&) const = default;
};
NcclSizes nccl_sizes(std::uint32_t architecture);

}  // namespace meshbed::testbed

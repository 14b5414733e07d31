#pragma once
// The tables between the drop-ins libcuda.so.1, libcudart.so.13 and libnvidia-ml.so.1 and the simulator: one function
// for each call that is implemented. The drop-ins own names and versions of symbols; sim/cuda owns what the calls do.
// Every call acts for the program that calls.

#include <cstddef>
#include <cstdint>

#include "sim/cuda/abi.h"
#include "sim/cuda/nvml/nvml_abi.h"

namespace meshbed::sim::cuda {

inline constexpr std::uint32_t kTableVersion = 1;

#define MESHBED_CUDA_CALL(type, name, parameters, arguments) type(*name) parameters;
struct DriverTable {
  std::uint32_t version;
  std::size_t size_bytes;
  CUresult (*unsupported)(const char* name);  // one WARN; kNotSupported
  CUresult (*register_kernel)(const MeshbedKernel* kernel);
  CUresult (*host_clock)(long long advance_ps, long long* now_ps);  // meshbedCudaHostClock()
#include "sim/cuda/driver_calls.def"
};
struct RuntimeTable {
  std::uint32_t version;
  std::size_t size_bytes;
  CUresult (*unsupported)(const char* name);
#include "sim/cuda/runtime_calls.def"
};
#undef MESHBED_CUDA_CALL
#define MESHBED_NVML_CALL(type, name, parameters, arguments) type(*name) parameters;
struct NvmlTable {
  std::uint32_t version;
  std::size_t size_bytes;
  int (*unsupported)(const char* name);  // one WARN; kNvmlNotSupported
#include "sim/cuda/nvml/nvml_calls.def"
};
#undef MESHBED_NVML_CALL

/// What each drop-in exports to be given its table: int(const Table*), 0 where version and size are its own. nullptr
/// takes the table back.
inline constexpr const char* kSetDriverTable = "meshbed_cuda_set_driver_table";
inline constexpr const char* kSetRuntimeTable = "meshbed_cuda_set_runtime_table";
inline constexpr const char* kSetNvmlTable = "meshbed_cuda_set_nvml_table";

}  // namespace meshbed::sim::cuda

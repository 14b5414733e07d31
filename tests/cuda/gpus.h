#pragma once
// One program with GPUs, in virtual time and in the test's own process, and the kernels that tests launch.

#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "plugin/base/log.h"
#include "sim/cuda/meshbed_cuda.h"
#include "sim/cuda/process/open.h"
#include "tests/cuda/program/cuda_calls.h"

extern "C" {
int meshbed_cuda_set_driver_table(const meshbed::sim::cuda::DriverTable* table);
int meshbed_cuda_set_runtime_table(const meshbed::sim::cuda::RuntimeTable* table);
}

namespace meshbed::test {

struct GpuProgram {
  int gpus = 1;
  std::string model = "H100";
  std::string visible = {};      // CUDA_VISIBLE_DEVICES; empty: not set
  std::string check = {};        // MESHBED_CUDA_CHECK; empty: not set
  std::string connections = {};  // CUDA_DEVICE_MAX_CONNECTIONS; empty: not set
};

/// What the program's simulated CUDA logged, one line each.
inline std::string& logged() {
  static std::string text;
  return text;
}

/// Calls `body` as the program; what it logged.
inline std::string run_gpus(const GpuProgram& wanted, const std::function<void()>& body) {
  namespace cuda = sim::cuda;
  logged().clear();
  set_log_sink([](LogLevel, const char*, int, const char* text) { logged() += std::string(text) + "\n"; });
  const std::vector<std::string> gpus(static_cast<std::size_t>(wanted.gpus), wanted.model);
  cuda::ProcessOptions options{.virtual_time = true, .environment = {}};
  if (!wanted.visible.empty()) options.environment["CUDA_VISIBLE_DEVICES"] = wanted.visible;
  if (!wanted.check.empty()) options.environment["MESHBED_CUDA_CHECK"] = wanted.check;
  if (!wanted.connections.empty()) options.environment["CUDA_DEVICE_MAX_CONNECTIONS"] = wanted.connections;
  cuda::open_process({gpus}, options);
  meshbed_cuda_set_driver_table(&cuda::process_driver_table());
  meshbed_cuda_set_runtime_table(&cuda::process_runtime_table());
  body();
  cuda::close_process();
  set_log_sink(nullptr);
  return logged();
}

/// The driver, started, with the primary context of device 0 current.
class Gpu {
 public:
  Gpu() {
    CHECK(cuInit(0) == 0);
    CHECK(cuDevicePrimaryCtxRetain(&context, 0) == 0);
    CHECK(cuCtxPushCurrent_v2(context) == 0);
  }
  CUcontext context = nullptr;
};

inline CUdeviceptr allocate(std::size_t size) {
  CUdeviceptr address = 0;
  CHECK(cuMemAlloc_v2(&address, size) == 0);
  return address;
}

inline void* allocate_pinned(std::size_t size) {
  void* address = nullptr;
  CHECK(cuMemHostAlloc(&address, size, 0) == 0);
  return address;
}

inline CUstream make_stream(unsigned flags = 1) {
  CUstream stream = nullptr;
  CHECK(cuStreamCreate(&stream, flags) == 0);
  return stream;
}

inline CUevent make_event(unsigned flags = 0) {
  CUevent event = nullptr;
  CHECK(cuEventCreate(&event, flags) == 0);
  return event;
}

/// Adds 1 to the number at its first argument; as many microseconds a wave as its second says.
inline void register_add_one() {
  static const unsigned kSizes[] = {sizeof(CUdeviceptr), sizeof(unsigned)};
  MeshbedKernel kernel{};
  kernel.size_bytes = sizeof(kernel);
  kernel.name = "add_one";
  kernel.argument_count = 2;
  kernel.argument_bytes = kSizes;
  kernel.run = [](const MeshbedLaunch* launch) {
    const auto address = *static_cast<const CUdeviceptr*>(launch->arguments[0]);
    if (auto* number = static_cast<int*>(launch->memory(launch, address, sizeof(int)))) ++*number;
    return 0;
  };
  kernel.cost = [](const MeshbedLaunch* launch, MeshbedCost* cost) {
    cost->wave_ns = 1000ULL * *static_cast<const unsigned*>(launch->arguments[1]);
  };
  CHECK(meshbedCudaRegisterKernel(&kernel) == 0);
}

inline CUfunction find_function(const char* image, const char* name) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CHECK(cuModuleLoadData(&module, image) == 0);
  CHECK(cuModuleGetFunction(&function, module, name) == 0);
  return function;
}

/// Kernels whose work a host function does, where a test registers one; else they do nothing.
inline constexpr const char* kImage = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry add_one(.param .u64 place, .param .u32 microseconds) { ret; }
.visible .entry nobody() { ret; }
)";

struct Shape {
  unsigned blocks = 1, threads = 1;
};
inline CUresult add_one(CUfunction function, CUdeviceptr address, unsigned microseconds, CUstream stream,
                        Shape shape = {}) {
  void* arguments[] = {&address, &microseconds};
  return cuLaunchKernel(function, shape.blocks, 1, 1, shape.threads, 1, 1, 0, stream, arguments, nullptr);
}

/// What the GPU sees there, by a copy that waits.
inline int number_at(CUdeviceptr address) {
  int number = -1;
  CHECK(cuMemcpyDtoH_v2(&number, address, sizeof(number)) == 0);
  return number;
}

inline Picoseconds now_ps() { return sim::cuda::host().now(); }
inline void sleep(Picoseconds duration_ps) { sim::cuda::host().sleep(duration_ps); }
inline sim::cuda::Counters counters() { return sim::cuda::current_driver()->counters; }

}  // namespace meshbed::test

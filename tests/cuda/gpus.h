#pragma once
// One program with GPUs, in virtual time and in the test's own process, and the kernels that tests launch.

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>

#include "plugin/base/log.h"
#include "sim/cuda/backend.h"
#include "sim/cuda/meshbed_cuda.h"
#include "sim/cuda/process/open.h"
#include "tests/cuda/program/cuda_calls.h"

namespace meshbed::test {

struct GpuProgram {
  int gpus = 1;
  std::string model = "H100";
  std::string visible = {};           // CUDA_VISIBLE_DEVICES; empty: not set
  std::string check = {};             // MESHBED_CUDA_CHECK; empty: not set
  std::string connections = {};       // CUDA_DEVICE_MAX_CONNECTIONS; empty: not set
  std::string pending_launches = {};  // MESHBED_CUDA_PENDING_LAUNCHES; empty: not set
  bool simulated = false;             // it looks at the simulator's own clock or counters
};

/// What only the drop-ins export; nullptr: the suite was given NVIDIA's libraries in their place.
template <typename Function>
Function* exported_by_drop_ins(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

/// Whether the suite was given NVIDIA's libraries (LD_LIBRARY_PATH) in place of the drop-ins: then it runs on a GPU.
inline bool genuine_gpu() { return dlsym(RTLD_DEFAULT, sim::cuda::kSetDriverTable) == nullptr; }

/// What the program's simulated CUDA logged, one line each.
inline std::string& logged() {
  static std::string text;
  return text;
}

/// Calls `body` as the program; what it logged.
inline std::string run_gpus(const GpuProgram& wanted, const std::function<void()>& body) {
  namespace cuda = sim::cuda;
  logged().clear();
  if (genuine_gpu()) {
    if (wanted.simulated || wanted.gpus > 1 || wanted.model != "H100" || !wanted.visible.empty() ||
        !wanted.check.empty()) {
      MESSAGE("not looked at: this asks for the simulator's clock or counters, or for other GPUs than there are");
      return "";
    }
    if (!wanted.connections.empty()) setenv("CUDA_DEVICE_MAX_CONNECTIONS", wanted.connections.c_str(), 1);
    body();
    return "";
  }
  set_log_sink([](LogLevel, const char*, int, const char* text) { logged() += std::string(text) + "\n"; });
  const std::vector<std::string> gpus(static_cast<std::size_t>(wanted.gpus), wanted.model);
  cuda::ProcessOptions options{.virtual_time = true, .environment = {}};
  if (!wanted.visible.empty()) options.environment["CUDA_VISIBLE_DEVICES"] = wanted.visible;
  if (!wanted.check.empty()) options.environment["MESHBED_CUDA_CHECK"] = wanted.check;
  if (!wanted.connections.empty()) options.environment["CUDA_DEVICE_MAX_CONNECTIONS"] = wanted.connections;
  if (!wanted.pending_launches.empty()) {
    options.environment["MESHBED_CUDA_PENDING_LAUNCHES"] = wanted.pending_launches;
  }
  cuda::open_process({gpus}, options);
  exported_by_drop_ins<int(const cuda::DriverTable*)>(cuda::kSetDriverTable)(&cuda::process_driver_table());
  exported_by_drop_ins<int(const cuda::RuntimeTable*)>(cuda::kSetRuntimeTable)(&cuda::process_runtime_table());
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

/// Memory of device 0 that is two mappings of `size_bytes` each, a multiple of 2 MiB, one behind the other.
inline CUdeviceptr map_twice(std::size_t size_bytes) {
  const sim::cuda::CUmemAllocationProp properties{
      .type = 1, .handle_types = 0, .location = {1, 0}, .windows = nullptr, .flags = {}};
  const sim::cuda::CUmemAccessDesc access{.location = {1, 0}, .flags = 3};
  CUdeviceptr place = 0;
  CHECK(cuMemAddressReserve(&place, 2 * size_bytes, 0, 0, 0) == 0);
  for (std::size_t at = 0; at < 2 * size_bytes; at += size_bytes) {
    unsigned long long memory = 0;
    CHECK(::cuMemCreate(&memory, size_bytes, &properties, 0) == 0);
    CHECK(cuMemMap(place + at, size_bytes, 0, memory, 0) == 0);
  }
  CHECK(::cuMemSetAccess(place, 2 * size_bytes, &access, 1) == 0);
  return place;
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

/// The drop-in's own meshbedCudaRegisterKernel.
inline int register_kernel(const MeshbedKernel& kernel) {
  return exported_by_drop_ins<int(const MeshbedKernel*)>("meshbedCudaRegisterKernel")(&kernel);
}

/// Adds 1 to the number at its first argument; as many microseconds a wave as its second says.
inline void register_add_one() {
  if (genuine_gpu()) return;
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
  CHECK(register_kernel(kernel) == 0);
}

/// Kernels whose work a host function does, where a test registers one; else they do nothing.
inline constexpr const char* kImage = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry add_one(.param .u64 place, .param .u32 microseconds) { ret; }
.visible .entry empty() { ret; }
)";

/// The same kernels for a GPU, which knows of no host function: one thread waits and adds.
inline constexpr const char* kGenuineImage = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry add_one(.param .u64 place, .param .u32 microseconds) {
  .reg .b64 %d<5>;
  .reg .b32 %r<5>;
  .reg .pred %p<2>;
  ld.param.u64 %d0, [place];
  ld.param.u32 %r0, [microseconds];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  or.b32 %r1, %r1, %r2;
  mul.wide.u32 %d1, %r0, 1000;
  mov.u64 %d2, %globaltimer;
  add.u64 %d2, %d2, %d1;
again:
  mov.u64 %d3, %globaltimer;
  setp.lt.u64 %p0, %d3, %d2;
  @%p0 bra again;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 ret;
  ld.global.u32 %r3, [%d0];
  add.u32 %r3, %r3, 1;
  st.global.u32 [%d0], %r3;
  ret;
}
.visible .entry empty() { ret; }
)";

inline CUfunction find_function(const char* image, const char* name) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  if (genuine_gpu() && std::string_view(image) == kImage) image = kGenuineImage;
  CHECK(cuModuleLoadData(&module, image) == 0);
  CHECK(cuModuleGetFunction(&function, module, name) == 0);
  return function;
}

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

// Of the simulator: GpuProgram::simulated, or not where genuine_gpu().
inline Picoseconds now_ps() { return sim::cuda::host().now(); }
inline void sleep(Picoseconds duration_ps) { sim::cuda::host().sleep(duration_ps); }
inline sim::cuda::Counters counters() { return sim::cuda::current_driver()->counters; }

}  // namespace meshbed::test

// The simulated CUDA of one program: made at the first call, ended with the process.

#include "sim/cuda/process/open.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "plugin/base/log.h"
#include "sim/cuda/nvml/nvml.h"
#include "sim/cuda/process/call_span.h"
#include "sim/cuda/record.h"
#include "sim/cuda/runtime.h"
#include "sim/cuda/system.h"

extern char** environ;

namespace meshbed::sim::cuda {
namespace {

// Never destroyed at exit: a program's own destructors may call CUDA after everything else has ended.
ProcessHost* g_process_host = nullptr;

thread_local CallConfigurations t_configurations;

/// One thread at a time, for the length of a call.
struct Turn {
  Turn() { g_process_host->enter(); }
  ~Turn() { g_process_host->leave(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
};

#define MESHBED_CUDA_CALL(type, name, parameters, arguments) \
  table.name = [] parameters -> type {                       \
    const Turn turn;                                         \
    const CallSpan span(#name);                              \
    return cuda::name arguments;                             \
  };

DriverTable driver_table() {
  DriverTable table{};
  table.version = kTableVersion;
  table.size_bytes = sizeof(table);
  table.unsupported = [](const char* name) {
    const Turn turn;
    return refuse(name);
  };
  table.register_kernel = [](const MeshbedKernel* kernel) {
    const Turn turn;
    return register_kernel(kernel);
  };
  table.host_clock = [](long long advance_ps, long long* now_ps) -> CUresult {
    if (advance_ps < 0 || now_ps == nullptr) return kInvalidValue;
    const Turn turn;
    *now_ps = g_process_host->advance(advance_ps);
    return kSuccess;
  };
#include "sim/cuda/driver_calls.def"
  return table;
}

RuntimeTable runtime_table() {
  RuntimeTable table{};
  table.version = kTableVersion;
  table.size_bytes = sizeof(table);
  table.unsupported = [](const char* name) {
    const Turn turn;
    refuse(name);
    return remember(kNotSupported);
  };
#include "sim/cuda/runtime_calls.def"
  // The configuration that <<< >>> stores until the kernel's stub reads it is the thread's own and needs no turn.
  table.__cudaPushCallConfiguration = [](dim3 grid, dim3 block, std::size_t shared, Stream* stream) -> unsigned {
    push_configuration(t_configurations, grid, block, shared, stream);
    return kSuccess;
  };
  table.__cudaPopCallConfiguration = [](dim3* grid, dim3* block, std::size_t* shared, void* stream) -> CUresult {
    if (pop_configuration(t_configurations, grid, block, shared, stream)) return kSuccess;
    const Turn turn;
    return remember(kMissingConfiguration);
  };
  return table;
}

NvmlTable nvml_table() {
  NvmlTable table{};
  table.version = kTableVersion;
  table.size_bytes = sizeof(table);
  table.unsupported = [](const char* name) {
    const Turn turn;
    return refuse_nvml(name);
  };
#define MESHBED_NVML_CALL MESHBED_CUDA_CALL
#include "sim/cuda/nvml/nvml_calls.def"
#undef MESHBED_NVML_CALL
  return table;
}
#undef MESHBED_CUDA_CALL

std::map<std::string, std::string> environment() {
  std::map<std::string, std::string> all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != text.npos) all[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return all;
}

std::string value_of(const std::map<std::string, std::string>& all, const char* name) {
  const auto found = all.find(name);
  return found != all.end() ? found->second : "";
}

void end_of_process() {
  g_process_host->stop();
  for (const auto& [process, driver] : system().drivers) {
    if (driver->printed.empty()) continue;
    MESHBED_WARN("%zu bytes that kernels printed were never shown: the program ended without waiting for them",
                 driver->printed.size());
  }
  const auto& variables = g_process_host->environment_of(nullptr);
  if (!value_of(variables, kSummaryVariable).empty()) {
    std::string gpu;
    for (const Device& device : system().devices.front()) gpu += (gpu.empty() ? "" : ",") + device.model->name;
    std::fflush(stdout);
    std::fputs(summary_of(system().record, gpu, g_process_host->now()).c_str(), stderr);
  }
  if (const std::string path = value_of(variables, kPerfettoVariable); !path.empty()) {
    std::ofstream file(path, std::ios::binary);
    file << perfetto_of(system().record, path.ends_with(".json"));
    file.close();
    if (!file) MESHBED_WARN("%s: cannot be written", path.c_str());
    warn_of_lost_spans(system().record);
  }
}

bool open() {
  const std::map<std::string, std::string> variables = environment();
  const std::string gpu = value_of(variables, kGpuVariable);
  if (gpu.empty()) return false;
  try {
    open_process({gpu_names_in(gpu)},
                 {.virtual_time = !value_of(variables, kVirtualVariable).empty(),
                  .environment = variables,
                  .cache_folder = cache_folder_of([&](const char* name) { return value_of(variables, name); })});
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "meshbed: %s\n", error.what());
    ::_exit(2);
  }
  system().record.keeps_spans = !value_of(variables, kPerfettoVariable).empty();
  std::atexit(end_of_process);
  return true;
}

}  // namespace

ProcessHost& open_process(const GpuNames& gpus, ProcessOptions options) {
  open_system(gpus);
  g_process_host = new ProcessHost(std::move(options));
  set_host(g_process_host);
  return *g_process_host;
}

// The host itself stays: driver threads that were spawned wait in it.
void close_process() {
  g_process_host->stop();
  close_system();
}

const DriverTable& process_driver_table() {
  static const DriverTable table = driver_table();
  return table;
}
const RuntimeTable& process_runtime_table() {
  static const RuntimeTable table = runtime_table();
  return table;
}
const NvmlTable& process_nvml_table() {
  static const NvmlTable table = nvml_table();
  return table;
}

}  // namespace meshbed::sim::cuda

/// The tables; null where the process was not started to have a simulated GPU.
extern "C" __attribute__((visibility("default"))) void meshbed_cuda_open(
    const meshbed::sim::cuda::DriverTable** driver, const meshbed::sim::cuda::RuntimeTable** runtime,
    const meshbed::sim::cuda::NvmlTable** nvml) {
  using namespace meshbed::sim::cuda;
  static const bool opened = open();  // once, whichever drop-in comes first
  if (driver != nullptr) *driver = opened ? &process_driver_table() : nullptr;
  if (runtime != nullptr) *runtime = opened ? &process_runtime_table() : nullptr;
  if (nvml != nullptr) *nvml = opened ? &process_nvml_table() : nullptr;
}

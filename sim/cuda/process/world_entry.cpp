#include "sim/cuda/process/world_entry.h"

#include "sim/cuda/nvml/nvml.h"
#include "sim/cuda/process/call_span.h"

namespace meshbed::sim::cuda {
namespace {

const DriverTable& world_driver_table() {
  static const DriverTable table = [] {
    DriverTable made{};
    made.version = kTableVersion;
    made.size_bytes = sizeof(made);
    made.unsupported = [](const char* name) { return refuse(name); };
    made.register_kernel = &register_kernel;
    made.host_clock = [](long long advance_ps, long long* now_ps) -> CUresult {
      if (advance_ps < 0 || now_ps == nullptr) return kInvalidValue;
      host().sleep(advance_ps);
      *now_ps = host().now();
      return kSuccess;
    };
#define MESHBED_CUDA_CALL(type, name, parameters, arguments) \
  made.name = [] parameters -> type {                        \
    const CallSpan span(#name);                              \
    return cuda::name arguments;                             \
  };
#include "sim/cuda/driver_calls.def"
#undef MESHBED_CUDA_CALL
    return made;
  }();
  return table;
}

const RuntimeTable& world_runtime_table() {
  static const RuntimeTable table = [] {
    RuntimeTable made{};
    made.version = kTableVersion;
    made.size_bytes = sizeof(made);
    made.unsupported = [](const char* name) {
      refuse(name);
      return remember(kNotSupported);
    };
#define MESHBED_CUDA_CALL(type, name, parameters, arguments) \
  made.name = [] parameters -> type {                        \
    const CallSpan span(#name);                              \
    return cuda::name arguments;                             \
  };
#include "sim/cuda/runtime_calls.def"
#undef MESHBED_CUDA_CALL
    return made;
  }();
  return table;
}

const NvmlTable& world_nvml_table() {
  static const NvmlTable table = [] {
    NvmlTable made{};
    made.version = kTableVersion;
    made.size_bytes = sizeof(made);
    made.unsupported = &refuse_nvml;
#define MESHBED_NVML_CALL(type, name, parameters, arguments) made.name = &cuda::name;
#include "sim/cuda/nvml/nvml_calls.def"
#undef MESHBED_NVML_CALL
    return made;
  }();
  return table;
}

/// nullptr: it has not called CUDA.
const Driver* driver_of(ProcessKey process) {
  if (!has_host()) return nullptr;  // nor is there a system
  const auto found = system().drivers.find(process);
  return found != system().drivers.end() ? found->second.get() : nullptr;
}

WorkCounts counts_of(ProcessKey process) {
  const Driver* driver = driver_of(process);
  if (driver == nullptr) return {};
  const Counters& counters = driver->counters;
  return {.launches = counters.launches,
          .copies = counters.copies_in + counters.copies_out + counters.copies_inside,
          .host_copies = counters.copies_in + counters.copies_out,
          .copied_bytes = counters.copied_bytes,
          .device_syncs = counters.device_syncs + counters.implicit_device_syncs};
}

}  // namespace
}  // namespace meshbed::sim::cuda

extern "C" __attribute__((visibility("default"))) const meshbed::sim::cuda::WorldEntry* meshbed_cuda_world() {
  using namespace meshbed::sim::cuda;
  static const WorldEntry entry{.version = kTableVersion,
                                .size_bytes = sizeof(WorldEntry),
                                .driver = &world_driver_table(),
                                .runtime = &world_runtime_table(),
                                .nvml = &world_nvml_table(),
                                .open =
                                    [](Host& host, const GpuNames& gpus) {
                                      open_system(gpus);
                                      set_host(&host);
                                    },
                                .close =
                                    [] {
                                      close_system();
                                      set_host(nullptr);
                                    },
                                .counts = &counts_of,
                                .in_use = [](ProcessKey process) { return driver_of(process) != nullptr; },
                                .keep_spans = [] { system().record.keeps_spans = true; },
                                .record = []() -> const Record& {
                                  warn_of_lost_spans(system().record);
                                  return system().record;
                                }};
  return &entry;
}

// libnvidia-ml.so.1 as the simulator has it: every call goes through the table.

#include "sim/cuda/dropin/export.h"

using namespace meshbed::sim::cuda;

namespace {

const NvmlTable* g_table = nullptr;  // set once, before any call, or at the first one

const NvmlTable* table() { return table_or_opened(g_table); }

/// Where no simulator is there.
template <typename Answer>
Answer without_driver() {
  return kNvmlDriverNotLoaded;
}
template <>
const char* without_driver<const char*>() {
  return without_simulator<const char*>();
}

}  // namespace

#define MESHBED_NVML_CALL(type, name, parameters, arguments) \
  MESHBED_EXPORT type name parameters { return table() != nullptr ? table()->name arguments : without_driver<type>(); }
#include "sim/cuda/nvml/nvml_calls.def"
#undef MESHBED_NVML_CALL

#define MESHBED_NVML_UNSUPPORTED(name) \
  MESHBED_EXPORT int name() { return table() != nullptr ? table()->unsupported(#name) : without_driver<int>(); }
#include "sim/cuda/nvml/nvml_unsupported.def"
#undef MESHBED_NVML_UNSUPPORTED

MESHBED_EXPORT int meshbed_cuda_set_nvml_table(const NvmlTable* table) { return take_table(g_table, table); }

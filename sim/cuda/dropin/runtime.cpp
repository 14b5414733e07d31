// libcudart.so.13 as the simulator has it: every call goes through the table.

#include "sim/cuda/dropin/export.h"

using namespace meshbed::sim::cuda;

namespace {

const RuntimeTable* g_table = nullptr;  // set once, before any call, or at the first one

const RuntimeTable* table() {
  if (g_table != nullptr) return g_table;
  static const RuntimeTable* const opened = [] {
    const RuntimeTable* found = nullptr;
    open_tables(nullptr, &found);
    return found;
  }();
  return opened;
}

}  // namespace

#define MESHBED_CUDA_CALL(type, name, parameters, arguments)                         \
  MESHBED_EXPORT type name parameters {                                              \
    return table() != nullptr ? table()->name arguments : without_simulator<type>(); \
  }
#include "sim/cuda/runtime_calls.def"
#undef MESHBED_CUDA_CALL

#define MESHBED_CUDA_UNSUPPORTED(name) \
  MESHBED_EXPORT int name() { return table() != nullptr ? table()->unsupported(#name) : without_simulator<CUresult>(); }
#include "sim/cuda/runtime_unsupported.def"
#undef MESHBED_CUDA_UNSUPPORTED

MESHBED_EXPORT int meshbed_cuda_set_runtime_table(const RuntimeTable* table) { return take_table(g_table, table); }

// libcudart.so.13 as the simulator has it: every call goes through the table.

#include "sim/cuda/dropin/export.h"

using namespace meshbed::sim::cuda;

namespace {

const RuntimeTable* g_table = nullptr;  // set once, before any call, or at the first one

const RuntimeTable* table() { return table_or_opened(g_table); }

}  // namespace

#define MESHBED_CUDA_CALL MESHBED_EXPORT_CALL
#include "sim/cuda/runtime_calls.def"
#undef MESHBED_CUDA_CALL

#define MESHBED_CUDA_UNSUPPORTED MESHBED_EXPORT_REFUSED
#include "sim/cuda/runtime_unsupported.def"
#undef MESHBED_CUDA_UNSUPPORTED

MESHBED_EXPORT int meshbed_cuda_set_runtime_table(const RuntimeTable* table) { return take_table(g_table, table); }

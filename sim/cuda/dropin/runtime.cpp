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

// --- the driver's calls by their names, as its own cuGetProcAddress has them ---
namespace {

int driver_entry(const char* symbol, void** function, int version, unsigned long long flags, int* status) {
  using GetProcAddress = int(const char*, void**, int, std::uint64_t, int*);
  static auto* const get = reinterpret_cast<GetProcAddress*>(symbol_beside("libcuda.so.1", "cuGetProcAddress_v2"));
  if (get == nullptr) return without_simulator<CUresult>();
  int found = 0;
  // A missing symbol is a null function and a status; the caller may leave the status out.
  const int error = get(symbol, function, version, flags, &found);
  if (error == kSuccess && status != nullptr) *status = found;
  return error;
}

constexpr unsigned long long kPerThreadDefault = 2;  // cudaEnablePerThreadDefaultStream

}  // namespace

MESHBED_EXPORT int cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                                    unsigned long long flags, int* status) {
  return driver_entry(symbol, function, static_cast<int>(version), flags, status);
}
MESHBED_EXPORT int cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** function, unsigned version,
                                                         unsigned long long flags, int* status) {
  return driver_entry(symbol, function, static_cast<int>(version), flags == 0 ? kPerThreadDefault : flags, status);
}
MESHBED_EXPORT int cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long flags, int* status) {
  return driver_entry(symbol, function, kCudaVersion, flags, status);
}
MESHBED_EXPORT int cudaGetDriverEntryPoint_ptsz(const char* symbol, void** function, unsigned long long flags,
                                                int* status) {
  return driver_entry(symbol, function, kCudaVersion, flags == 0 ? kPerThreadDefault : flags, status);
}

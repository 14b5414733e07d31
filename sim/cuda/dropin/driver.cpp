// libcuda.so.1 as the simulator has it: every call goes through the table.

#include <algorithm>
#include <iterator>
#include <string>

#include "sim/cuda/dropin/export.h"

using namespace meshbed::sim::cuda;

namespace {

const DriverTable* g_table = nullptr;  // set once, before any call, or at the first one

const DriverTable* table() { return table_or_opened(g_table); }

struct Entry {
  const char* name;
  void* function;
};

/// The newest version of `name` that this library implements and whoever compiled for `version` can call; with a
/// default stream of each thread's own where that is wanted and makes a difference.
void* function_of(const char* name, int version, bool per_thread);

}  // namespace

#define MESHBED_CUDA_CALL MESHBED_EXPORT_CALL
#include "sim/cuda/driver_calls.def"
#undef MESHBED_CUDA_CALL

#define MESHBED_CUDA_UNSUPPORTED MESHBED_EXPORT_REFUSED
#include "sim/cuda/driver_unsupported.def"
#undef MESHBED_CUDA_UNSUPPORTED

MESHBED_EXPORT int meshbed_cuda_set_driver_table(const DriverTable* table) { return take_table(g_table, table); }

MESHBED_EXPORT int meshbedCudaRegisterKernel(const MeshbedKernel* kernel) {
  return table() != nullptr ? table()->register_kernel(kernel) : without_simulator<CUresult>();
}

MESHBED_EXPORT int meshbedCudaHostClock(long long advance_ps, long long* now_ps) {
  return table() != nullptr ? table()->host_clock(advance_ps, now_ps) : without_simulator<CUresult>();
}

// A name that is exported and not implemented is not found here: whoever asks has another way, or says what is missing.
MESHBED_EXPORT int cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags,
                                       int* status) {
  constexpr int kFound = 0, kNoSuchSymbol = 1;
  constexpr std::uint64_t kPerThread = 2, kMostFlags = 2;  // cuda.h's CU_GET_PROC_ADDRESS_*
  if (name == nullptr || function == nullptr || version > kCudaVersion || flags > kMostFlags) return kInvalidValue;
  *function = function_of(name, version, flags == kPerThread);
  if (status != nullptr) *status = *function != nullptr ? kFound : kNoSuchSymbol;
  // As the driver: with a status to say it in, a missing symbol is no error.
  return *function != nullptr || status != nullptr ? kSuccess : kNotFound;
}

MESHBED_EXPORT int cuGetProcAddress(const char* name, void** function, int version, std::uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

namespace {

/// Since which CUDA a name means that version of it, where the one before is implemented, too, or takes other
/// parameters: cudaTypedefs.h's PFN_*_vVERSION.
struct Since {
  const char* name;
  int version;
};
constexpr Since kSince[] = {
    {"cuCtxCreate_v4", 12050},
    {"cuGraphInstantiate_v2", 11000},
    {"cuGraphAddKernelNode_v2", 12000},
    {"cuGraphKernelNodeGetParams_v2", 12000},
    {"cuGraphKernelNodeSetParams_v2", 12000},
    {"cuGraphExecKernelNodeSetParams_v2", 12000},
    {"cuGraphExecUpdate_v2", 12000},
    {"cuGraphGetEdges_v2", 12030},
    {"cuGraphNodeGetDependencies_v2", 12030},
    {"cuGraphNodeGetDependentNodes_v2", 12030},
    {"cuGraphAddDependencies_v2", 12030},
    {"cuGraphRemoveDependencies_v2", 12030},
    {"cuGraphAddNode_v2", 12030},
    {"cuStreamGetCaptureInfo_v2", 11030},
    {"cuStreamGetCaptureInfo_v3", 12030},
    {"cuStreamUpdateCaptureDependencies_v2", 12030},
    {"cuMemAdvise_v2", 12020},
    {"cuMemPrefetchAsync_v2", 12020},
    {"cuIpcOpenMemHandle_v2", 11000},
};

bool is_younger(const std::string& name, int version) {
  return std::any_of(std::begin(kSince), std::end(kSince),
                     [&](const Since& one) { return name == one.name && version < one.version; });
}

void* function_of(const char* name, int version, bool per_thread) {
#define MESHBED_CUDA_CALL(type, name, parameters, arguments) {#name, reinterpret_cast<void*>(&name)},
  static const Entry kEntries[] = {
#include "sim/cuda/driver_calls.def"
      {"cuGetProcAddress_v2", reinterpret_cast<void*>(&cuGetProcAddress_v2)},
      {"meshbedCudaRegisterKernel", reinterpret_cast<void*>(&meshbedCudaRegisterKernel)},
  };
#undef MESHBED_CUDA_CALL
  for (int suffix = 4; suffix >= 1; --suffix) {
    const std::string wanted = suffix == 1 ? std::string(name) : std::string(name) + "_v" + std::to_string(suffix);
    if (is_younger(wanted, version)) continue;
    const auto find = [&](const std::string& whole) -> void* {
      const auto* found = std::find_if(std::begin(kEntries), std::end(kEntries),
                                       [&](const Entry& entry) { return whole == entry.name; });
      return found != std::end(kEntries) ? found->function : nullptr;
    };
    for (const char* twin : {"_ptsz", "_ptds"}) {
      void* own = per_thread ? find(wanted + twin) : nullptr;
      if (own != nullptr) return own;
    }
    if (void* function = find(wanted)) return function;
  }
  return nullptr;
}

}  // namespace

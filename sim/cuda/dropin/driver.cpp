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

/// The newest version of `name` for a program compiled for `version`; with a default stream of each thread's own if
/// that is wanted and makes a difference.
struct Found {
  void* function;
  int status;
};
Found function_of(const char* name, int version, bool per_thread);

// cuda.h's CUdriverProcAddressQueryResult.
constexpr int kFound = 0, kNoSuchCall = 1, kLaterVersion = 2;

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

// A name that is exported and not implemented is not found here: the caller has an alternative, or reports it.
MESHBED_EXPORT int cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags,
                                       int* status) {
  constexpr std::uint64_t kPerThread = 2, kMostFlags = 2;  // cuda.h's CU_GET_PROC_ADDRESS_*
  if (name == nullptr || function == nullptr || version > kCudaVersion || flags > kMostFlags) return kInvalidValue;
  const Found found = function_of(name, version, flags == kPerThread);
  *function = found.function;
  if (status != nullptr) *status = found.status;
  // As the driver: with a status argument, a missing symbol is no error.
  return *function != nullptr || status != nullptr ? kSuccess : kNotFound;
}

MESHBED_EXPORT int cuGetProcAddress(const char* name, void** function, int version, std::uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

namespace {

struct Since {
  const char* name;
  int version;
};
#define MESHBED_CUDA_SINCE(name, version) {#name, version},
constexpr Since kSince[] = {
#include "sim/cuda/dropin/driver_versions.def"
};
#undef MESHBED_CUDA_SINCE

void* find_call(const std::string& name) {
#define MESHBED_CUDA_CALL(type, name, parameters, arguments) {#name, reinterpret_cast<void*>(&name)},
  static const Entry kEntries[] = {
#include "sim/cuda/driver_calls.def"
      {"cuGetProcAddress", reinterpret_cast<void*>(&cuGetProcAddress)},
      {"cuGetProcAddress_v2", reinterpret_cast<void*>(&cuGetProcAddress_v2)},
      {"meshbedCudaRegisterKernel", reinterpret_cast<void*>(&meshbedCudaRegisterKernel)},
  };
#undef MESHBED_CUDA_CALL
  const auto* found =
      std::find_if(std::begin(kEntries), std::end(kEntries), [&](const Entry& entry) { return name == entry.name; });
  return found != std::end(kEntries) ? found->function : nullptr;
}

Found function_of(const char* name, int version, bool per_thread) {
  bool later = false;
  for (int suffix = 4; suffix >= 1; --suffix) {
    const std::string wanted = suffix == 1 ? std::string(name) : std::string(name) + "_v" + std::to_string(suffix);
    const auto* since =
        std::find_if(std::begin(kSince), std::end(kSince), [&](const Since& one) { return wanted == one.name; });
    const bool is_known = since != std::end(kSince);
    if (is_known && since->version > version) {
      later = true;
      continue;
    }
    for (const char* twin : {"_ptsz", "_ptds"}) {
      if (void* own = per_thread ? find_call(wanted + twin) : nullptr) return {own, kFound};
    }
    // Another version would take other arguments: where this one is not implemented there is none.
    if (void* function = find_call(wanted)) return {function, kFound};
    if (is_known) return {nullptr, kNoSuchCall};
  }
  return {nullptr, later ? kLaterVersion : kNoSuchCall};
}

}  // namespace

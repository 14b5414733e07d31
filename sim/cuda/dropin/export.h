#pragma once
// The common part of the drop-ins: how a call is exported, and its result outside a simulation.

#include <dlfcn.h>

#include <string>
#include <type_traits>

#include "sim/cuda/backend.h"

/// In front of every exported function.
#define MESHBED_EXPORT extern "C" __attribute__((visibility("default")))

/// An implemented call and a refused one, exported; table() is the drop-in's own.
#define MESHBED_EXPORT_CALL(type, name, parameters, arguments)                       \
  MESHBED_EXPORT type name parameters {                                              \
    return table() != nullptr ? table()->name arguments : without_simulator<type>(); \
  }
#define MESHBED_EXPORT_REFUSED(name) \
  MESHBED_EXPORT int name() { return table() != nullptr ? table()->unsupported(#name) : without_simulator<CUresult>(); }

namespace meshbed::sim::cuda {

/// What another library beside this one has; nullptr: there is none.
inline void* symbol_beside(const char* library_name, const char* symbol) {
  Dl_info here{};
  if (::dladdr(reinterpret_cast<void*>(&symbol_beside), &here) == 0 || here.dli_fname == nullptr) return nullptr;
  const std::string file = here.dli_fname;
  const std::string path = file.substr(0, file.rfind('/') + 1) + library_name;
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  return library != nullptr ? ::dlsym(library, symbol) : nullptr;
}

/// The tables of a program that runs in a process of its own, from the library beside this one: none has been set.
inline void open_tables(const DriverTable** driver, const RuntimeTable** runtime, const NvmlTable** nvml) {
  void* symbol = symbol_beside("libmeshbed-cuda.so", "meshbed_cuda_open");
  if (symbol == nullptr) return;
  reinterpret_cast<void (*)(const DriverTable**, const RuntimeTable**, const NvmlTable**)>(symbol)(driver, runtime,
                                                                                                   nvml);
}

/// The table that was set, else that of a process of its own, looked for once; nullptr: there is no simulator.
template <typename Table>
const Table* table_or_opened(const Table* set) {
  if (set != nullptr) return set;
  static const Table* const opened = [] {
    const Table* found = nullptr;
    if constexpr (std::is_same_v<Table, DriverTable>) {
      open_tables(&found, nullptr, nullptr);
    } else if constexpr (std::is_same_v<Table, NvmlTable>) {
      open_tables(nullptr, nullptr, &found);
    } else {
      // As NVIDIA's runtime does: the driver's library shows other code whether the process has CUDA.
      symbol_beside("libcuda.so.1", "cuInit");
      open_tables(nullptr, &found, nullptr);
    }
    return found;
  }();
  return opened;
}

/// Outside a simulation this library behaves as a driver without a device.
template <typename Answer>
Answer without_simulator() {
  return Answer();
}
template <>
inline CUresult without_simulator<CUresult>() {
  return kNoDevice;
}
template <>
inline const char* without_simulator<const char*>() {
  return "this library works in a simulation only";
}

/// nullptr: the simulation has ended. Libraries that ranks loaded still call when the process ends.
template <typename Table>
int take_table(const Table*& place, const Table* table) {
  if (table != nullptr && (table->version != kTableVersion || table->size_bytes != sizeof(Table))) return kInvalidValue;
  place = table;
  return kSuccess;
}

}  // namespace meshbed::sim::cuda

#pragma once
// The driver's calls as a program finds them: by cuGetProcAddress, with the version that it was compiled for.

#include <doctest/doctest.h>

#include "sim/cuda/system.h"
#include "tests/cuda/gpus.h"

namespace meshbed::test {

template <typename Function>
Function* find_entry(const char* name, int version, unsigned long long flags = 0) {
  void* function = nullptr;
  int status = -1;
  CHECK(cuGetProcAddress_v2(name, &function, version, flags, &status) == 0);
  CHECK_MESSAGE(function != nullptr, name);
  return reinterpret_cast<Function*>(function);
}

inline sim::cuda::Stream* handle_of(CUstream stream) { return reinterpret_cast<sim::cuda::Stream*>(stream); }
inline sim::cuda::Event* handle_of(CUevent event) { return reinterpret_cast<sim::cuda::Event*>(event); }
inline sim::cuda::Kernel* handle_of(CUfunction function) { return reinterpret_cast<sim::cuda::Kernel*>(function); }

}  // namespace meshbed::test

/// The call of that name as CUDA 13.0's programs have it; `call`: what it is in the simulator's list.
#define DRIVER_CALL(call, name) DRIVER_CALL_AT(call, name, 13000)
/// The same as programs of that version have it.
#define DRIVER_CALL_AT(call, name, version) find_entry<decltype(meshbed::sim::cuda::call)>(name, version)

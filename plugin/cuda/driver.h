#pragma once
// Driver: the CUDA driver, loaded when it is wanted. The product is not linked with CUDA, and is built without its
// headers: the libcuda.so.1 that the process finds is NVIDIA's on a machine with a GPU and the drop-in in the simulated
// world; if there is none, the result is an error with its reason.
//
// One Driver for each part of the product that uses CUDA; it holds entry points alone and may be copied and used from
// any thread. As in CUDA itself, most calls act on the context that is current in the calling thread (Current below).

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "plugin/base/result.h"

namespace meshbed::cuda {

// CUDA's own names and values, from cuda.h.
using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUpointer_attribute = int;
using CUdevice_attribute = int;
using CUmemRangeHandleType = int;
using CUstreamCaptureStatus = int;
using CUstreamCaptureMode = int;
using CUhostFn = void (*)(void* data);
// In this namespace, so that a file may also declare CUDA's own types.
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUmod_st;
struct CUfunc_st;
struct CUgraph_st;
struct CUgraphExec_st;
using CUcontext = CUctx_st*;
using CUstream = CUstream_st*;
using CUevent = CUevent_st*;
using CUmodule = CUmod_st*;
using CUfunction = CUfunc_st*;
using CUgraph = CUgraph_st*;
using CUgraphExec = CUgraphExec_st*;

inline constexpr const char* kCudaLibrary = "libcuda.so.1";
inline constexpr CUresult kCudaSuccess = 0, kCudaNotReady = 600;

struct Calls {
#define MESHBED_CUDA_ENTRY(name, parameters) CUresult(*name) parameters = nullptr;
#include "plugin/cuda/driver_calls.def"
#undef MESHBED_CUDA_ENTRY
};

/// What CUDA knows about an address.
struct Pointer {
  bool on_device = false;       // memory of a GPU's that is not the host's
  bool is_managed = false;      // ... which the CPU may follow all the same
  CUdevice device = -1;         // whose it is
  CUcontext context = nullptr;  // that it was allocated in; null where CUDA knows nothing of it
  /// The CPU would fault there.
  bool hidden_from_host() const { return on_device && !is_managed; }
};

class Driver {
 public:
  /// Loads libcuda.so.1 and starts it. No such library, no device: kUnsupported, and why. One that is too old: kSystem,
  /// since there may be GPU memory all the same.
  static Result<Driver> open();
  /// Whether this process has loaded it already. If not, no pointer of the process is a GPU's: a process without CUDA
  /// pays nothing for it.
  static bool is_loaded() {  // not in driver.cpp, of which a process without a GPU then has nothing in memory
    void* library = ::dlopen(kCudaLibrary, RTLD_NOW | RTLD_NOLOAD);
    return library != nullptr && ::dlclose(library) == 0;
  }

  const Calls& calls() const { return calls_; }
  int devices() const { return devices_; }
  /// For error codes: "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
  Result<void> outcome(CUresult code, const char* call) const;

  /// What the driver calls it ("NVIDIA GB10").
  Result<std::string> device_name(CUdevice device) const;
  /// One of constants.h's kDevice...
  Result<int> attribute(CUdevice device, CUdevice_attribute attribute) const;
  Result<std::uint64_t> memory_bytes(CUdevice device) const;
  /// Of CUDA, the newest that it serves: 13000 is 13.0.
  Result<int> version() const;

  /// What lies at the address; nothing where it is memory that CUDA does not know. Needs no context.
  Result<Pointer> look_at(const void* address) const;
  /// Whether adapters may be given GPU memory that lies there.
  Result<bool> is_gpu_direct(const void* address) const;
  /// The context that the runtime and most programs use; kept until the process ends.
  Result<CUcontext> retain_primary(CUdevice device) const;
  /// Of the calling thread; null: none is.
  Result<CUcontext> current() const;
  /// Its number, which no other context of the process ever has.
  Result<unsigned long long> current_number() const;

 private:
  Driver() = default;

  Calls calls_;
  int devices_ = 0;
};

/// The calling thread's context for as long as this lives; then the one of before.
class Current {
 public:
  Current(const Driver& driver, CUcontext context);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  /// Why it is not current.
  const Result<void>& outcome() const { return outcome_; }

 private:
  const Driver& driver_;
  Result<void> outcome_;
};

inline CUdeviceptr address_of(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace meshbed::cuda

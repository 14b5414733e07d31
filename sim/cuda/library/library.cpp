// Libraries: a module's kernels by number, a kernel by its library; and the runtime's libraries, which are the
// driver's.
//
// Everything is loaded at once, so that a kernel is always there (cuFuncIsLoaded), and a library is a module of no
// context.

#include <algorithm>
#include <string>
#include <vector>

#include "sim/cuda/runtime.h"
#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

/// In the order of the image; of one without PTX, by name.
std::vector<std::string> kernel_names(const Module& module) {
  std::vector<std::string> names(module.names.begin(), module.names.end());
  if (module.code == nullptr) return names;
  for (const ptx::KernelInfo& kernel : module.code->kernels()) names.push_back(kernel.name);
  return names;
}

CUresult count_kernels(unsigned* count, Module* module) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (count == nullptr) return kInvalidValue;
  if (caller.driver->modules.find(module) == nullptr) return kInvalidHandle;
  *count = static_cast<unsigned>(kernel_names(*module).size());
  return kSuccess;
}

/// At most `most` kernels; a larger number than there are is no error (cuda.h, for both calls).
CUresult list_kernels(Kernel** kernels, unsigned most, Module* module) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (kernels == nullptr) return kInvalidValue;
  if (caller.driver->modules.find(module) == nullptr) return kInvalidHandle;
  std::vector<std::string> names = kernel_names(*module);
  names.resize(std::min<std::size_t>(names.size(), most));
  for (const std::string& name : names) {
    if (const CUresult error = find_kernel(*caller.driver, *module, name, *kernels++)) return error;
  }
  return kSuccess;
}

/// A kernel's settings are one for all devices of the process, whose shared memory is looked at on the current one.
CUresult check_device(CUdevice ordinal) {
  Caller caller;
  Device* device = nullptr;
  return with_device(ordinal, caller, device);
}

}  // namespace

CUresult cuModuleGetFunctionCount(unsigned* count, Module* module) { return count_kernels(count, module); }
CUresult cuLibraryGetKernelCount(unsigned* count, Module* library) { return count_kernels(count, library); }
CUresult cuModuleEnumerateFunctions(Kernel** functions, unsigned most, Module* module) {
  return list_kernels(functions, most, module);
}
CUresult cuLibraryEnumerateKernels(Kernel** kernels, unsigned most, Module* library) {
  return list_kernels(kernels, most, library);
}

CUresult cuFuncIsLoaded(int* state, Kernel* function) {
  constexpr int kLoaded = 1;  // CU_FUNCTION_LOADING_STATE_LOADED
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (state == nullptr || function == nullptr) return kInvalidValue;
  *state = kLoaded;
  return kSuccess;
}
CUresult cuFuncLoad(Kernel* function) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  return function != nullptr ? kSuccess : kInvalidValue;
}

CUresult cuKernelGetLibrary(Module** library, Kernel* kernel) { return cuFuncGetModule(library, kernel); }
CUresult cuKernelGetAttribute(int* value, int attribute, Kernel* kernel, CUdevice device) {
  const CUresult error = check_device(device);
  return error != kSuccess ? error : cuFuncGetAttribute(value, attribute, kernel);
}
CUresult cuKernelSetAttribute(int attribute, int value, Kernel* kernel, CUdevice device) {
  const CUresult error = check_device(device);
  return error != kSuccess ? error : cuFuncSetAttribute(kernel, attribute, value);
}
CUresult cuKernelSetCacheConfig(Kernel* kernel, int config, CUdevice device) {
  const CUresult error = check_device(device);
  return error != kSuccess ? error : cuFuncSetCacheConfig(kernel, config);
}
CUresult cuKernelGetParamInfo(Kernel* kernel, std::size_t index, std::size_t* offset, std::size_t* size) {
  return cuFuncGetParamInfo(kernel, index, offset, size);
}

// --- the runtime's ---
CUresult cudaLibraryLoadData(Module** library, const void* image, int* options, void** values, unsigned count,
                             int* library_options, void** library_values, unsigned library_count) {
  return in_runtime([&] {
    return cuLibraryLoadData(library, image, options, values, count, library_options, library_values, library_count);
  });
}
CUresult cudaLibraryLoadFromFile(Module** library, const char* path, int* options, void** values, unsigned count,
                                 int* library_options, void** library_values, unsigned library_count) {
  return in_runtime([&] {
    return cuLibraryLoadFromFile(library, path, options, values, count, library_options, library_values, library_count);
  });
}
CUresult cudaLibraryUnload(Module* library) {
  return in_runtime([&] { return cuLibraryUnload(library); });
}
CUresult cudaLibraryGetKernel(Kernel** kernel, Module* library, const char* name) {
  return in_runtime([&] { return cuLibraryGetKernel(kernel, library, name); });
}
CUresult cudaLibraryGetGlobal(void** address, std::size_t* bytes, Module* library, const char* name) {
  return in_runtime([&] { return cuLibraryGetGlobal(reinterpret_cast<CUdeviceptr*>(address), bytes, library, name); });
}
CUresult cudaLibraryGetManaged(void** address, std::size_t* bytes, Module* library, const char* name) {
  return in_runtime([&] { return cuLibraryGetManaged(reinterpret_cast<CUdeviceptr*>(address), bytes, library, name); });
}
CUresult cudaLibraryGetKernelCount(unsigned* count, Module* library) {
  return in_runtime([&] { return cuLibraryGetKernelCount(count, library); });
}
CUresult cudaLibraryEnumerateKernels(Kernel** kernels, unsigned most, Module* library) {
  return in_runtime([&] { return cuLibraryEnumerateKernels(kernels, most, library); });
}

}  // namespace meshbed::sim::cuda

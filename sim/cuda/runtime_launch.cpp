// The runtime's kernels: the functions that nvcc's code for the host calls. A program registers its kernels before
// main(), each by the address of a host function (__cudaRegisterFunction). The addresses of all loaded files differ, so
// one table holds them all.

#include <fmt/format.h>

#include "plugin/base/log.h"
#include "sim/cuda/runtime.h"
#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {

namespace {

/// Once for each image.
void warn_of_no_ptx(const Driver& driver, const FatBinary* binary) {
  const auto failed = driver.not_loaded.find(binary);
  if (failed == driver.not_loaded.end() || failed->second.no_ptx.empty()) return;
  if (!system().refused.insert(fmt::format("image {}", fmt::ptr(binary))).second) return;
  MESHBED_WARN("%s", failed->second.no_ptx.c_str());
}

}  // namespace

CUresult kernel_of(const void* function, Kernel*& kernel, KernelUse use) {
  Driver& driver = *current_driver();
  if (const auto known = driver.host_functions.find(function); known != driver.host_functions.end()) {
    kernel = known->second;
    return kSuccess;
  }
  const auto registered = system().host_functions.find(function);
  if (registered == system().host_functions.end()) {
    return complain(
        kInvalidDeviceFunction,
        "the function is not a kernel of the program: error 98; compile the file that defines it by nvcc and "
        "link with the shared runtime (nvcc -cudart shared)");
  }
  Module* module = nullptr;
  if (const CUresult error = program_module(driver, registered->second.binary, module)) {
    if (use == KernelUse::kRuns) warn_of_no_ptx(driver, registered->second.binary);
    return error;
  }
  const std::string& name = registered->second.name;
  if (const CUresult error = find_kernel(driver, *module, name, kernel)) {
    if (error != kNotFound) return error;
    if (use == KernelUse::kRuns && system().refused.insert("kernel " + name).second) {
      MESHBED_WARN("kernel %s: the program has no PTX of it for this device, and the simulated device runs PTX alone",
                   name.c_str());
    }
    return kInvalidDeviceFunction;
  }
  driver.host_functions[function] = kernel;
  return kSuccess;
}

namespace {

CUresult launch_kernel(Kernel* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared, Stream* stream,
                       bool cooperative) {
  const unsigned grids[] = {grid.x, grid.y, grid.z}, blocks[] = {block.x, block.y, block.z};
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (kernel == nullptr) return kInvalidDeviceFunction;
  KernelLaunch made;
  const CUresult error =
      prepare_launch(caller, kernel, grids, blocks, static_cast<unsigned>(shared), arguments, nullptr, made);
  if (error != kSuccess) return error;
  return launch(caller, stream, std::move(made), {.cooperative = cooperative});
}

CUresult launch_function(const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                         Stream* stream, bool cooperative) {
  return in_runtime([&]() -> CUresult {
    Kernel* kernel = nullptr;
    if (const CUresult error = kernel_of(function, kernel)) return error;
    return launch_kernel(kernel, grid, block, arguments, shared, stream, cooperative);
  });
}

}  // namespace

CUresult program_module(Driver& driver, FatBinary* binary, Module*& module) {
  if (const auto known = driver.programs.find(binary); known != driver.programs.end()) {
    module = known->second;
    return kSuccess;
  }
  if (const auto failed = driver.not_loaded.find(binary); failed != driver.not_loaded.end()) {
    return failed->second.error;
  }
  if (driver.devices.empty()) return kNoDevice;
  std::unique_ptr<Module> made;
  const CUresult error = load_image(driver, *driver.devices.front(), binary->image, 0, "the program's PTX", made);
  // A kernel of machine code alone may have a host function in its place.
  const bool hosted = error == kNoKernelImage && !driver.interpreters.empty();
  if (error != kSuccess && !hosted) {
    driver.not_loaded[binary] = {error, made != nullptr ? made->no_ptx : ""};
    return error;
  }
  module = driver.modules.add(std::move(made));
  driver.programs[binary] = module;
  for (const auto& [address, variable] : system().host_variables) {
    if (variable.binary != binary || variable.managed_slot == nullptr) continue;
    const auto found = module->by_name.find(variable.name);
    if (found != module->by_name.end()) *variable.managed_slot = reinterpret_cast<void*>(found->second.address);
  }
  return kSuccess;
}

void forget_programs(Driver& driver) {
  for (auto& [binary, module] : driver.programs) {
    module->variables.clear();
    module->by_name.clear();
  }
  driver.programs.clear();
  driver.host_functions.clear();
}

CUresult find_symbol(const void* symbol, Variable& variable) {
  Driver& driver = *current_driver();
  const auto registered = system().host_variables.find(symbol);
  const HostVariable* found = registered != system().host_variables.end() ? &registered->second : nullptr;
  // A managed variable is named by the address that its slot holds.
  for (const auto& [slot, one] : system().host_variables) {
    if (found == nullptr && one.managed_slot != nullptr && *one.managed_slot == symbol) found = &one;
  }
  if (found == nullptr) return kInvalidSymbol;
  Module* module = nullptr;
  if (const CUresult error = program_module(driver, found->binary, module)) {
    warn_of_no_ptx(driver, found->binary);
    return error;
  }
  const auto place = module->by_name.find(found->name);
  if (place == module->by_name.end()) return kInvalidSymbol;
  variable = place->second;
  return kSuccess;
}

FatBinary* __cudaRegisterFatBinary(void* image) { return new FatBinary{.image = image}; }
void __cudaRegisterFatBinaryEnd(FatBinary*) {}

char __cudaInitModule(FatBinary* binary) {
  if (begin_runtime() != kSuccess) return 0;
  Module* module = nullptr;
  return program_module(*current_driver(), binary, module) == kSuccess ? 1 : 0;
}

void __cudaUnregisterFatBinary(FatBinary* binary) {
  for (auto& [process, driver] : system().drivers) {
    std::erase_if(driver->host_functions, [binary](const auto& one) {
      const auto registered = system().host_functions.find(one.first);
      return registered != system().host_functions.end() && registered->second.binary == binary;
    });
  }
  std::erase_if(system().host_functions, [binary](const auto& one) { return one.second.binary == binary; });
  std::erase_if(system().host_variables, [binary](const auto& one) { return one.second.binary == binary; });
  for (auto& [process, driver] : system().drivers) {
    driver->programs.erase(binary);
    driver->not_loaded.erase(binary);
  }
  delete binary;
}

void __cudaRegisterFunction(FatBinary* binary, const char* host, char*, const char* name, int, void*, void*, void*,
                            void*, int*) {
  system().host_functions[host] = {.name = name, .binary = binary};
}

void __cudaRegisterVar(FatBinary* binary, char* host, char*, const char* name, int, std::size_t, int, int) {
  system().host_variables[host] = {.name = name, .binary = binary};
}

void __cudaRegisterManagedVar(FatBinary* binary, void** slot, char*, const char* name, int, std::size_t, int, int) {
  system().host_variables[slot] = {.name = name, .binary = binary, .managed_slot = slot};
}

void push_configuration(CallConfigurations& stack, dim3 grid, dim3 block, std::size_t shared, Stream* stream) {
  stack.push_back({.grid = grid,
                   .block = block,
                   .shared_bytes = shared,
                   .stream = stream,
                   .attributes = nullptr,
                   .attribute_count = 0});
}

bool pop_configuration(CallConfigurations& stack, dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  if (stack.empty()) return false;
  const cudaLaunchConfig last = stack.back();
  stack.pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared = last.shared_bytes;
  *static_cast<Stream**>(stream) = last.stream;
  return true;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, Stream* stream) {
  Driver* driver = current_driver();
  if (driver == nullptr) return kNoDevice;
  push_configuration(own_state(*driver).configurations, grid, block, shared, stream);
  return kSuccess;
}

CUresult __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  Driver* driver = current_driver();
  if (driver == nullptr) return kNoDevice;
  CallConfigurations& stack = own_state(*driver).configurations;
  return pop_configuration(stack, grid, block, shared, stream) ? kSuccess : remember(kMissingConfiguration);
}

// nvcc's code for the host launches the kernel without checking the result: the launch reports a missing kernel.
CUresult __cudaGetKernel(Kernel** kernel, const void* function) {
  return in_runtime([&]() -> CUresult {
    if (kernel == nullptr) return kInvalidValue;
    *kernel = nullptr;
    const CUresult error = kernel_of(function, *kernel);
    if (error != kSuccess) own_state(*current_driver()).no_kernel = error;
    return error;
  });
}

CUresult __cudaLaunchKernel(Kernel* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                            Stream* stream) {
  return in_runtime([&]() -> CUresult {
    if (kernel == nullptr) return own_state(*current_driver()).no_kernel;
    return launch_kernel(kernel, grid, block, arguments, shared, stream, false);
  });
}

CUresult cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                          Stream* stream) {
  return launch_function(function, grid, block, arguments, shared, stream, false);
}

CUresult cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments, std::size_t shared,
                                     Stream* stream) {
  return launch_function(function, grid, block, arguments, shared, stream, true);
}

CUresult cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function, int threads,
                                                                std::size_t shared, unsigned flags) {
  return in_runtime([&]() -> CUresult {
    Kernel* kernel = nullptr;
    if (const CUresult error = kernel_of(function, kernel)) return error;
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, threads, shared, flags);
  });
}

CUresult cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads,
                                                       std::size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}

}  // namespace meshbed::sim::cuda

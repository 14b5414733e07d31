#include "plugin/cuda/module.h"

namespace meshbed::cuda {

Result<Module> Module::load(const Driver& driver, const void* image) {
  auto handle = Handle::made(driver, "cuModuleLoadData", [&](const Calls& calls, CUmodule* module) {
    return calls.cuModuleLoadData(module, image);
  });
  if (!handle) return handle.error();
  return Module(std::move(*handle));
}

Result<CUfunction> Module::kernel(const std::string& name) const {
  const Driver& driver = handle_.driver();
  CUfunction function = nullptr;
  auto done =
      driver.outcome(driver.calls().cuModuleGetFunction(&function, handle_.get(), name.c_str()), "cuModuleGetFunction");
  if (!done) return Error{done.error().code, done.error().scope, done.error().text + " of " + name};
  return function;
}

Result<void> launch(const Driver& driver, CUfunction kernel, const LaunchShape& shape, void** arguments) {
  const CUresult code =
      driver.calls().cuLaunchKernel(kernel, shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x, shape.block.y,
                                    shape.block.z, shape.shared_bytes, shape.stream, arguments, nullptr);
  return driver.outcome(code, "cuLaunchKernel");
}

}  // namespace meshbed::cuda

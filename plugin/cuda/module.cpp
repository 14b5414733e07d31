#include "plugin/cuda/module.h"

namespace meshbed::cuda {

Result<Module> Module::load(const Driver& driver, const void* image) {
  const auto context = driver.current();
  if (!context) return context.error();
  Module module;
  if (auto done = driver.outcome(driver.calls().cuModuleLoadData(&module.handle_, image), "cuModuleLoadData"); !done) {
    return done.error();
  }
  module.driver_ = &driver;
  module.context_ = *context;
  return module;
}

Module::~Module() {
  if (driver_ == nullptr) return;
  const Current current(*driver_, context_);
  driver_->calls().cuModuleUnload(handle_);
}

Result<CUfunction> Module::kernel(const std::string& name) const {
  CUfunction function = nullptr;
  auto done =
      driver_->outcome(driver_->calls().cuModuleGetFunction(&function, handle_, name.c_str()), "cuModuleGetFunction");
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

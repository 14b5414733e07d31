#pragma once
// Module: kernels, loaded from PTX text or a cubin, owned. The context that is current when it is loaded is its own.

#include <string>
#include <utility>

#include "plugin/cuda/driver.h"
#include "plugin/cuda/owned.h"

namespace meshbed::cuda {

struct Extent {
  unsigned x = 1, y = 1, z = 1;
};
/// Blocks, threads a block, and where.
struct LaunchShape {
  Extent grid, block;
  unsigned shared_bytes = 0;
  CUstream stream = nullptr;
};

class Module {
 public:
  /// `image`: PTX text ends in a NUL.
  static Result<Module> load(const Driver& driver, const void* image);
  Module() = default;

  Result<CUfunction> kernel(const std::string& name) const;

 private:
  using Handle = Owned<CUmodule, &Calls::cuModuleUnload>;
  explicit Module(Handle handle) : handle_(std::move(handle)) {}
  Handle handle_;
};

/// `arguments`: the address of each, in the kernel's order; their values are taken when the call comes.
Result<void> launch(const Driver& driver, CUfunction kernel, const LaunchShape& shape, void** arguments);

}  // namespace meshbed::cuda

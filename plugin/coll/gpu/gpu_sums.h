#pragma once
// GpuSums: the reductions of one channel run, made by the GPU that has the operation's memory. A slice that arrived in
// pinned memory is read there by the kernel; what is our own it reads in the GPU's memory, and where the result lies in
// pinned memory, to be sent on, it writes it there. So no byte of a slice passes the processor.
//
// One slice at a time: begun when it has arrived, looked at until it has ended. Those of one context's channel runs
// stand in one stream, behind the copies into pinned memory. Progress thread.

#include <cstdint>

#include "plugin/base/result.h"
#include "plugin/coll/gpu/gpu_reduce.h"
#include "plugin/cuda/driver.h"
#include "plugin/cuda/stream.h"

namespace meshbed::coll {

class Gpu;

class GpuSums {
 public:
  /// `kernels`, loaded in `context`, stay as long as `gpu`.
  GpuSums(Gpu& gpu, cuda::CUcontext context, const GpuReduceKernels& kernels)
      : gpu_(gpu), context_(context), kernels_(kernels) {}

  /// `then`: after the first, where it has elements.
  Result<void> begin(const GpuReduction& first, const GpuReduction& then = {});
  bool is_under_way() const { return under_way_; }
  /// Whether what was begun has ended; then the next may begin. Never waits.
  Result<bool> has_ended();

 private:
  Gpu& gpu_;
  const cuda::CUcontext context_;
  const GpuReduceKernels kernels_;
  cuda::Event end_;
  bool has_event_ = false, under_way_ = false;
};

}  // namespace meshbed::coll

#pragma once
// GpuSums: the reductions of one channel run, made by the GPU that has the operation's memory. A slice that arrived in
// pinned memory is read there by the kernel; what is our own it reads in the GPU's memory, and where the result lies in
// pinned memory, to be sent on, it writes it there. So no byte of a slice passes the processor.
//
// A slice's is begun when it has arrived, and looked at until it has ended; as many are under way as slices have
// arrived. Those of one context's channel runs stand in one stream, behind the copies into pinned memory, and end in
// the order in which they were begun. Progress thread.

#include <cstdint>
#include <deque>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/coll/run/gpu_reduce.h"
#include "plugin/cuda/driver.h"
#include "plugin/cuda/stream.h"

namespace meshbed::coll {

class Gpu;

class GpuSums {
 public:
  /// `kernels`, loaded in `context`, stay as long as `gpu`.
  GpuSums(Gpu& gpu, cuda::CUcontext context, const GpuReduceKernels& kernels)
      : gpu_(gpu), context_(context), kernels_(kernels) {}

  /// `then`: after the first, where it has elements. Its number: how many have been begun.
  Result<std::uint64_t> begin(const GpuReduction& first, const GpuReduction& then = {});
  /// Whether that number has ended. Never waits.
  Result<bool> has_ended(std::uint64_t number);

 private:
  Gpu& gpu_;
  const cuda::CUcontext context_;
  const GpuReduceKernels kernels_;
  std::deque<cuda::Event> ends_;  // of those under way
  std::vector<cuda::Event> free_;
  std::uint64_t begun_ = 0, ended_ = 0;
};

}  // namespace meshbed::coll

#pragma once
// GpuBuffers: one rank's buffers of GPU memory, the matching host buffers for inputs and expected results
// (CollectiveBuffers), and the stream for its calls. Created, used and destroyed by the rank's own thread, in whose
// process the CUDA driver is looked up: the simulated one, or a real one.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "plugin/base/result.h"
#include "plugin/cuda/memory.h"
#include "plugin/cuda/stream.h"

namespace meshbed::testbed {

class GpuBuffers {
 public:
  struct Options {
    int device = 0;  // of this rank's node; counted from 0 again where there are not so many
    // The host's buffers, of which these are the images; an empty one has none.
    std::byte* send = nullptr;
    std::byte* recv = nullptr;
    std::uint64_t size_bytes = 0;  // of each
  };
  /// kUnsupported, and why, where the rank has no CUDA.
  static Result<std::unique_ptr<GpuBuffers>> make(const Options& options);
  GpuBuffers(const GpuBuffers&) = delete;
  GpuBuffers& operator=(const GpuBuffers&) = delete;

  /// The GPU's byte behind one of the host's buffers.
  std::byte* behind(const std::byte* host) const;
  void* stream() const { return stream_.handle(); }
  /// Between a part of a host's buffer and the GPU's behind it; both wait.
  Result<void> put(const std::byte* host, std::uint64_t size_bytes) const;
  Result<void> get(std::byte* host, std::uint64_t size_bytes) const;
  /// Until all that was put into the stream has ended.
  Result<void> wait() const { return stream_.synchronize(); }

 private:
  GpuBuffers(const cuda::Driver& driver, const Options& options, cuda::CUcontext context)
      : driver_(driver), options_(options), current_(driver_, context) {}

  const cuda::Driver driver_;
  const Options options_;
  const cuda::Current current_;  // on the rank's thread, while this lives
  cuda::Stream stream_;
  cuda::DeviceMemory send_, recv_;
};

}  // namespace meshbed::testbed

#pragma once
// GpuSession: one GPU with the means to measure it: kernels, a stream, words that GPU and host share, and the two ways
// to take a time. Owned by measure_gpu(); one thread uses it. Errors of the driver are thrown as std::runtime_error.

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "plugin/cuda/memory.h"
#include "plugin/cuda/module.h"
#include "plugin/cuda/stream.h"
#include "testbed/fidelity/gpu/measure.h"

namespace meshbed::testbed {

template <typename T>
T taken(Result<T> result) {
  if (!result) throw std::runtime_error("calibrate gpu: " + result.error().text);
  return std::move(result).value();
}
inline void require_done(const Result<void>& result) {
  if (!result) throw std::runtime_error("calibrate gpu: " + result.error().text);
}

class GpuSession {
 public:
  /// In the calling thread's context.
  GpuSession(const cuda::Driver& driver, int repeats);

  const cuda::Driver& driver() const { return driver_; }
  const HostClock& clock() const { return clock_; }
  const cuda::Stream& stream() const { return stream_; }
  std::size_t repeats() const { return repeats_; }
  /// Of copies of many bytes.
  std::size_t few_repeats() const;

  cuda::CUfunction kernel(const char* name) const { return taken(module_.kernel(name)); }
  void launch(cuda::CUfunction kernel, std::vector<void*> arguments, unsigned blocks = 1, unsigned threads = 1) const;
  void synchronize() const { require_done(stream_.synchronize()); }

  /// A word of pinned memory, each in a line of its own.
  enum class SharedWord { kHold, kStored, kQuestion, kReply, kWords };
  volatile std::uint32_t& word(SharedWord which) const;
  cuda::CUdeviceptr address(SharedWord which) const;
  /// Polls until the word has this value; throws after a second.
  void wait_for(volatile std::uint32_t& word, std::uint32_t value, const char* what) const;

  /// Holds the stream: work submitted to it begins when this guard is destroyed.
  class Held {
   public:
    explicit Held(const GpuSession& session);
    ~Held();
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    const GpuSession& session_;
  };
  /// Picoseconds of the GPU for each `submit` in a busy stream: the difference between `many` and `few` of them, by the
  /// GPU's own events; one value for each of `repeats`.
  std::vector<double> device_ps_each(int few, int many, std::size_t repeats, const std::function<void()>& submit) const;
  /// Picoseconds of the host's clock that `call` takes; one value for each of `repeats`. The stream is idle before
  /// each.
  std::vector<double> host_ps_of(std::size_t repeats, const std::function<void()>& call) const;

 private:
  const cuda::Driver& driver_;
  HostClock clock_;
  std::size_t repeats_;
  cuda::Module module_;
  cuda::Stream stream_;
  cuda::PinnedMemory words_;
  cuda::Event first_, second_, third_;
  cuda::CUfunction hold_ = nullptr;
};

/// Median and spread of `values`, in `unit`s of `per_unit` picoseconds.
Measured with_spread(std::string what, std::string unit, double per_unit, std::vector<double> values);
Measured without_value(std::string what, std::string unit, std::string reason);

// The measurements of a session; each adds to `values`.
void measure_launches(const GpuSession& session, MeasuredValues& values);
void measure_words(const GpuSession& session, MeasuredValues& values);
void measure_atomics(const GpuSession& session, const GpuAttributes& gpu, MeasuredValues& values);
void measure_residency(const GpuSession& session, const GpuAttributes& gpu, MeasuredValues& values);
void measure_copies(const GpuSession& session, const GpuAttributes& gpu, std::uint64_t copy_bytes,
                    MeasuredValues& values);

}  // namespace meshbed::testbed

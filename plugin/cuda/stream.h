#pragma once
// Streams and events, owned; and what a stream is given to do. The stream's context must be current, but to destroy.

#include <cstdint>
#include <utility>

#include "plugin/cuda/constants.h"
#include "plugin/cuda/driver.h"
#include "plugin/cuda/owned.h"

namespace meshbed::cuda {

/// A point of a stream, without timing unless asked for.
class Event {
 public:
  static Result<Event> create(const Driver& driver, bool timed = false);
  Event() = default;

  CUevent handle() const { return handle_.get(); }
  /// All that the stream has been given so far comes before it.
  Result<void> record(CUstream stream) const;
  /// Whether all of that has ended. Never waits.
  Result<bool> has_come() const;
  Result<void> synchronize() const;
  Result<float> milliseconds_since(const Event& begin) const;

 private:
  using Handle = Owned<CUevent, &Calls::cuEventDestroy>;
  explicit Event(Handle handle) : handle_(std::move(handle)) {}
  Handle handle_;
};

/// One of our own, which does not wait for the default stream.
class Stream {
 public:
  static Result<Stream> create(const Driver& driver);
  Stream() = default;

  CUstream handle() const { return handle_.get(); }
  /// Between any two memories that CUDA knows, or pageable host memory, which makes the call wait.
  Result<void> copy(void* target, const void* source, std::size_t size_bytes) const;
  Result<void> fill(void* target, std::uint8_t value, std::size_t size_bytes) const;
  Result<void> wait(const Event& event) const;
  /// Whether it has nothing left to do. Never waits.
  Result<bool> is_idle() const;
  Result<void> synchronize() const;

 private:
  using Handle = Owned<CUstream, &Calls::cuStreamDestroy>;
  explicit Stream(Handle handle) : handle_(std::move(handle)) {}
  Handle handle_;
};

/// The calling thread's calls spoil no recording of another thread's for as long as this lives (allocations would).
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver) { exchange(); }
  ~RelaxedCapture() { exchange(); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  void exchange();
  const Driver& driver_;
  CUstreamCaptureMode mode_ = kCaptureRelaxed;  // that of before, after the first exchange
};

/// The same for the calling thread's life.
void relax_recordings(const Driver& driver);

// For streams of any owner.
/// As Stream::copy.
Result<void> copy(const Driver& driver, CUstream stream, void* target, const void* source, std::size_t size_bytes);
/// What is put into it after this begins only once the 32-bit word at `address` has come up to `value`, counted in a
/// circle.
Result<void> hold_until(const Driver& driver, CUstream stream, CUdeviceptr address, std::uint32_t value);
Result<bool> is_recording(const Driver& driver, CUstream stream);
/// CUDA calls `function`, which must call nothing of CUDA's, when the stream comes to it.
Result<void> call_host(const Driver& driver, CUstream stream, CUhostFn function, void* data);
Result<void> wait_for_event(const Driver& driver, CUstream stream, const Event& event);
Result<CUcontext> context_of(const Driver& driver, CUstream stream);

}  // namespace meshbed::cuda

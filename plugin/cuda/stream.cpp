#include "plugin/cuda/stream.h"

#include "plugin/cuda/constants.h"

namespace meshbed::cuda {
namespace {

/// "Not ready" is an answer.
Result<bool> come(const Driver& driver, CUresult code, const char* call) {
  if (code == kCudaNotReady) return false;
  if (auto done = driver.outcome(code, call); !done) return done.error();
  return true;
}

}  // namespace

Result<Event> Event::create(const Driver& driver, bool timed) {
  auto handle = Handle::made(driver, "cuEventCreate", [&](const Calls& calls, CUevent* event) {
    return calls.cuEventCreate(event, timed ? 0 : kEventDisableTiming);
  });
  if (!handle) return handle.error();
  return Event(std::move(*handle));
}

Result<void> Event::record(CUstream stream) const {
  return handle_.driver().outcome(handle_.driver().calls().cuEventRecord(handle(), stream), "cuEventRecord");
}

Result<bool> Event::has_come() const {
  return come(handle_.driver(), handle_.driver().calls().cuEventQuery(handle()), "cuEventQuery");
}

Result<void> Event::synchronize() const {
  return handle_.driver().outcome(handle_.driver().calls().cuEventSynchronize(handle()), "cuEventSynchronize");
}

Result<float> Event::milliseconds_since(const Event& begin) const {
  float milliseconds = 0;
  auto done = handle_.driver().outcome(
      handle_.driver().calls().cuEventElapsedTime(&milliseconds, begin.handle(), handle()), "cuEventElapsedTime");
  if (!done) return done.error();
  return milliseconds;
}

Result<Stream> Stream::create(const Driver& driver) {
  auto handle = Handle::made(driver, "cuStreamCreate", [](const Calls& calls, CUstream* stream) {
    return calls.cuStreamCreate(stream, kStreamNonBlocking);
  });
  if (!handle) return handle.error();
  return Stream(std::move(*handle));
}

Result<void> Stream::copy(void* target, const void* source, std::size_t size_bytes) const {
  return cuda::copy(handle_.driver(), handle(), target, source, size_bytes);
}

Result<void> Stream::fill(void* target, std::uint8_t value, std::size_t size_bytes) const {
  const CUresult code = handle_.driver().calls().cuMemsetD8Async(address_of(target), value, size_bytes, handle());
  return handle_.driver().outcome(code, "cuMemsetD8Async");
}

Result<void> Stream::wait(const Event& event) const { return wait_for_event(handle_.driver(), handle(), event); }

Result<bool> Stream::is_idle() const {
  return come(handle_.driver(), handle_.driver().calls().cuStreamQuery(handle()), "cuStreamQuery");
}

Result<void> Stream::synchronize() const {
  return handle_.driver().outcome(handle_.driver().calls().cuStreamSynchronize(handle()), "cuStreamSynchronize");
}

void RelaxedCapture::exchange() { driver_.calls().cuThreadExchangeStreamCaptureMode(&mode_); }

void relax_recordings(const Driver& driver) {
  CUstreamCaptureMode mode = kCaptureRelaxed;
  driver.calls().cuThreadExchangeStreamCaptureMode(&mode);
}

Result<void> copy(const Driver& driver, CUstream stream, void* target, const void* source, std::size_t size_bytes) {
  const CUresult code = driver.calls().cuMemcpyAsync(address_of(target), address_of(source), size_bytes, stream);
  return driver.outcome(code, "cuMemcpyAsync");
}

Result<void> call_host(const Driver& driver, CUstream stream, CUhostFn function, void* data) {
  return driver.outcome(driver.calls().cuLaunchHostFunc(stream, function, data), "cuLaunchHostFunc");
}

Result<void> wait_for_event(const Driver& driver, CUstream stream, const Event& event) {
  return driver.outcome(driver.calls().cuStreamWaitEvent(stream, event.handle(), 0), "cuStreamWaitEvent");
}

Result<void> hold_until(const Driver& driver, CUstream stream, CUdeviceptr address, std::uint32_t value) {
  return driver.outcome(driver.calls().cuStreamWaitValue32(stream, address, value, kWaitGreaterOrEqual),
                        "cuStreamWaitValue32");
}

Result<bool> is_recording(const Driver& driver, CUstream stream) {
  CUstreamCaptureStatus status = kCaptureNone;
  auto done = driver.outcome(driver.calls().cuStreamIsCapturing(stream, &status), "cuStreamIsCapturing");
  if (!done) return done.error();
  return status != kCaptureNone;
}

Result<CUcontext> context_of(const Driver& driver, CUstream stream) {
  CUcontext context = nullptr;
  auto done = driver.outcome(driver.calls().cuStreamGetCtx(stream, &context), "cuStreamGetCtx");
  if (!done) return done.error();
  return context;
}

}  // namespace meshbed::cuda

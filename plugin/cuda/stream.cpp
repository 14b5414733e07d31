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
  const auto context = driver.current();
  if (!context) return context.error();
  Event event;
  auto done =
      driver.outcome(driver.calls().cuEventCreate(&event.handle_, timed ? 0 : kEventDisableTiming), "cuEventCreate");
  if (!done) return done.error();
  event.driver_ = &driver;
  event.context_ = *context;
  return event;
}

Event::~Event() {
  if (driver_ == nullptr) return;
  const Current current(*driver_, context_);
  driver_->calls().cuEventDestroy(handle_);
}

Result<void> Event::record(CUstream stream) const {
  return driver_->outcome(driver_->calls().cuEventRecord(handle_, stream), "cuEventRecord");
}

Result<bool> Event::has_come() const { return come(*driver_, driver_->calls().cuEventQuery(handle_), "cuEventQuery"); }

Result<void> Event::synchronize() const {
  return driver_->outcome(driver_->calls().cuEventSynchronize(handle_), "cuEventSynchronize");
}

Result<float> Event::milliseconds_since(const Event& begin) const {
  float milliseconds = 0;
  auto done = driver_->outcome(driver_->calls().cuEventElapsedTime(&milliseconds, begin.handle_, handle_),
                               "cuEventElapsedTime");
  if (!done) return done.error();
  return milliseconds;
}

Result<Stream> Stream::create(const Driver& driver) {
  const auto context = driver.current();
  if (!context) return context.error();
  Stream stream;
  if (auto done = driver.outcome(driver.calls().cuStreamCreate(&stream.handle_, kStreamNonBlocking), "cuStreamCreate");
      !done) {
    return done.error();
  }
  stream.driver_ = &driver;
  stream.context_ = *context;
  return stream;
}

Stream::~Stream() {
  if (driver_ == nullptr) return;
  const Current current(*driver_, context_);
  driver_->calls().cuStreamDestroy(handle_);
}

Result<void> Stream::copy(void* target, const void* source, std::size_t size_bytes) const {
  const CUresult code = driver_->calls().cuMemcpyAsync(address_of(target), address_of(source), size_bytes, handle_);
  return driver_->outcome(code, "cuMemcpyAsync");
}

Result<void> Stream::fill(void* target, std::uint8_t value, std::size_t size_bytes) const {
  const CUresult code = driver_->calls().cuMemsetD8Async(address_of(target), value, size_bytes, handle_);
  return driver_->outcome(code, "cuMemsetD8Async");
}

Result<void> Stream::wait(const Event& event) const { return wait_for_event(*driver_, handle_, event); }

Result<bool> Stream::is_idle() const {
  return come(*driver_, driver_->calls().cuStreamQuery(handle_), "cuStreamQuery");
}

Result<void> Stream::synchronize() const {
  return driver_->outcome(driver_->calls().cuStreamSynchronize(handle_), "cuStreamSynchronize");
}

void RelaxedCapture::exchange() { driver_.calls().cuThreadExchangeStreamCaptureMode(&mode_); }

void relax_recordings(const Driver& driver) {
  CUstreamCaptureMode mode = kCaptureRelaxed;
  driver.calls().cuThreadExchangeStreamCaptureMode(&mode);
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

#include "testbed/workload/gpu_buffers.h"

namespace meshbed::testbed {

Result<std::unique_ptr<GpuBuffers>> GpuBuffers::make(const Options& options) {
  const auto driver = cuda::Driver::open();
  if (!driver) {
    Error error = driver.error();
    error.text = "memory = \"gpu\": " + error.text;
    return error;
  }
  const auto context = driver->retain_primary(options.device % driver->devices());
  if (!context) return context.error();
  std::unique_ptr<GpuBuffers> made(new GpuBuffers(*driver, options, *context));
  if (!made->current_.outcome()) return made->current_.outcome().error();
  auto stream = cuda::Stream::create(made->driver_);
  if (!stream) return stream.error();
  made->stream_ = std::move(*stream);
  const auto allocate = [&](const std::byte* host, cuda::DeviceMemory& memory) -> Result<void> {
    if (host == nullptr || options.size_bytes == 0) return ok();
    auto allocated = cuda::DeviceMemory::allocate(made->driver_, options.size_bytes);
    if (!allocated) return allocated.error();
    memory = std::move(*allocated);
    return ok();
  };
  auto done = allocate(options.send, made->send_);
  if (done) done = allocate(options.recv, made->recv_);
  if (!done) return done.error();
  return made;
}

std::byte* GpuBuffers::behind(const std::byte* host) const {
  const auto within = [&](const std::byte* begin) {
    return begin != nullptr && host >= begin && host < begin + options_.size_bytes;
  };
  if (within(options_.send)) return reinterpret_cast<std::byte*>(send_.data()) + (host - options_.send);
  return within(options_.recv) ? reinterpret_cast<std::byte*>(recv_.data()) + (host - options_.recv) : nullptr;
}

Result<void> GpuBuffers::put(const std::byte* host, std::uint64_t size_bytes) const {
  if (size_bytes == 0) return ok();
  auto copied = stream_.copy(behind(host), host, size_bytes);
  return copied ? stream_.synchronize() : copied;
}

Result<void> GpuBuffers::get(std::byte* host, std::uint64_t size_bytes) const {
  if (size_bytes == 0) return ok();
  auto copied = stream_.copy(host, behind(host), size_bytes);
  return copied ? stream_.synchronize() : copied;
}

}  // namespace meshbed::testbed

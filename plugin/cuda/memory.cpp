#include "plugin/cuda/memory.h"

#include "plugin/cuda/constants.h"

namespace meshbed::cuda {

Result<DeviceMemory> DeviceMemory::allocate(const Driver& driver, std::size_t size_bytes) {
  const auto context = driver.current();
  if (!context) return context.error();
  CUdeviceptr address = 0;
  if (auto done = driver.outcome(driver.calls().cuMemAlloc(&address, size_bytes), "cuMemAlloc"); !done) {
    return done.error();
  }
  DeviceMemory memory;
  memory.driver_ = &driver;
  memory.context_ = *context;
  memory.data_ = reinterpret_cast<char*>(address);
  memory.size_bytes_ = size_bytes;
  return memory;
}

DeviceMemory::~DeviceMemory() {
  if (data_ == nullptr) return;
  const Current current(*driver_, context_);
  driver_->calls().cuMemFree(address_of(data_));
}

Result<PinnedMemory> PinnedMemory::allocate(const Driver& driver, std::size_t size_bytes) {
  constexpr unsigned kPortableAndMapped = kHostAllocPortable | kHostAllocMapped;
  const auto context = driver.current();
  if (!context) return context.error();
  void* data = nullptr;
  const Calls& calls = driver.calls();
  auto done = driver.outcome(calls.cuMemHostAlloc(&data, size_bytes, kPortableAndMapped), "cuMemHostAlloc");
  if (!done) return done.error();
  PinnedMemory memory;
  memory.driver_ = &driver;
  memory.context_ = *context;
  memory.data_ = static_cast<char*>(data);
  memory.size_bytes_ = size_bytes;
  done = driver.outcome(calls.cuMemHostGetDevicePointer(&memory.device_address_, data, 0), "cuMemHostGetDevicePointer");
  if (!done) return done.error();
  return memory;
}

PinnedMemory::~PinnedMemory() {
  if (data_ == nullptr) return;
  const Current current(*driver_, context_);
  driver_->calls().cuMemFreeHost(data_);
}

}  // namespace meshbed::cuda

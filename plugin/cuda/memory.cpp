#include "plugin/cuda/memory.h"

#include "plugin/cuda/constants.h"

namespace meshbed::cuda {

Result<DeviceMemory> DeviceMemory::allocate(const Driver& driver, std::size_t size_bytes) {
  auto handle = Handle::made(driver, "cuMemAlloc", [&](const Calls& calls, CUdeviceptr* address) {
    return calls.cuMemAlloc(address, size_bytes);
  });
  if (!handle) return handle.error();
  return DeviceMemory(std::move(*handle), size_bytes);
}

Result<PinnedMemory> PinnedMemory::allocate(const Driver& driver, std::size_t size_bytes) {
  constexpr unsigned kPortableAndMapped = kHostAllocPortable | kHostAllocMapped;
  auto handle = Handle::made(driver, "cuMemHostAlloc", [&](const Calls& calls, void** data) {
    return calls.cuMemHostAlloc(data, size_bytes, kPortableAndMapped);
  });
  if (!handle) return handle.error();
  CUdeviceptr address = 0;
  auto done =
      driver.outcome(driver.calls().cuMemHostGetDevicePointer(&address, handle->get(), 0), "cuMemHostGetDevicePointer");
  if (!done) return done.error();
  return PinnedMemory(std::move(*handle), size_bytes, address);
}

}  // namespace meshbed::cuda

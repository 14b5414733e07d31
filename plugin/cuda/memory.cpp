#include "plugin/cuda/memory.h"

#include <unistd.h>

#include "plugin/cuda/constants.h"

namespace meshbed::cuda {

Result<DeviceMemory> DeviceMemory::allocate(const Driver& driver, std::size_t size_bytes) {
  auto handle = Handle::made(driver, "cuMemAlloc", [&](const Calls& calls, CUdeviceptr* address) {
    return calls.cuMemAlloc(address, size_bytes);
  });
  if (!handle) return handle.error();
  return DeviceMemory(std::move(*handle), size_bytes);
}

Result<DmaBuf> export_dma_buf(const Driver& driver, const void* data, std::size_t size_bytes) {
  // Whole pages of the host, as cuda.h asks for; the rest of an allocation's last page is not used by others.
  const auto page = static_cast<CUdeviceptr>(::sysconf(_SC_PAGESIZE));
  const CUdeviceptr at = address_of(data), begin = at & ~(page - 1);
  const CUdeviceptr end = (at + size_bytes + page - 1) & ~(page - 1);
  int number = -1;
  const CUresult code = driver.calls().cuMemGetHandleForAddressRange(&number, begin, end - begin, kRangeDmaBuf, 0);
  if (auto done = driver.outcome(code, "cuMemGetHandleForAddressRange"); !done) return done.error();
  return DmaBuf{.descriptor = Descriptor(number), .offset_bytes = at - begin};
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

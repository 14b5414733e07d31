#pragma once
// Memory of a GPU, and host memory that GPUs reach, owned. The context that is current when they are made is theirs;
// they may be destroyed from any thread.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "plugin/base/descriptor.h"
#include "plugin/cuda/driver.h"
#include "plugin/cuda/owned.h"

namespace meshbed::cuda {

/// A GPU's memory; the CPU may not follow its address. Giving it back waits for all work of its context.
class DeviceMemory {
 public:
  static Result<DeviceMemory> allocate(const Driver& driver, std::size_t size_bytes);
  DeviceMemory() = default;

  char* data() const { return reinterpret_cast<char*>(handle_.get()); }
  std::size_t size_bytes() const { return size_bytes_; }

 private:
  using Handle = Owned<CUdeviceptr, &Calls::cuMemFree>;
  DeviceMemory(Handle handle, std::size_t size_bytes) : handle_(std::move(handle)), size_bytes_(size_bytes) {}
  Handle handle_;
  std::size_t size_bytes_ = 0;
};

/// The pages of a GPU's memory that some bytes lie in, for other devices.
struct DmaBuf {
  Descriptor descriptor;
  std::uint64_t offset_bytes = 0;  // of the first byte
};
/// In the memory's context, which must be current. The descriptor may be closed when a device has registered it.
Result<DmaBuf> export_dma_buf(const Driver& driver, const void* data, std::size_t size_bytes);

/// Pinned host memory, which the GPUs of all contexts reach as well.
class PinnedMemory {
 public:
  static Result<PinnedMemory> allocate(const Driver& driver, std::size_t size_bytes);
  PinnedMemory() = default;

  char* data() const { return static_cast<char*>(handle_.get()); }
  std::size_t size_bytes() const { return size_bytes_; }
  /// Where a GPU finds it.
  CUdeviceptr device_address() const { return device_address_; }

 private:
  using Handle = Owned<void*, &Calls::cuMemFreeHost>;
  PinnedMemory(Handle handle, std::size_t size_bytes, CUdeviceptr device_address)
      : handle_(std::move(handle)), size_bytes_(size_bytes), device_address_(device_address) {}
  Handle handle_;
  std::size_t size_bytes_ = 0;
  CUdeviceptr device_address_ = 0;
};

}  // namespace meshbed::cuda

#pragma once
// Memory of a GPU, and host memory that GPUs reach, owned. The context that is current when they are made is theirs;
// they may be destroyed from any thread.

#include <cstddef>
#include <utility>

#include "plugin/cuda/driver.h"

namespace meshbed::cuda {

/// A GPU's memory; the CPU may not follow its address. Giving it back waits for all work of its context.
class DeviceMemory {
 public:
  static Result<DeviceMemory> allocate(const Driver& driver, std::size_t size_bytes);
  DeviceMemory() = default;
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    swap(other);
    return *this;
  }

  char* data() const { return data_; }
  std::size_t size_bytes() const { return size_bytes_; }

 private:
  void swap(DeviceMemory& other) {
    std::swap(driver_, other.driver_);
    std::swap(context_, other.context_);
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
  }
  const Driver* driver_ = nullptr;
  CUcontext context_ = nullptr;
  char* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

/// Pinned host memory, which the GPUs of all contexts reach as well.
class PinnedMemory {
 public:
  static Result<PinnedMemory> allocate(const Driver& driver, std::size_t size_bytes);
  PinnedMemory() = default;
  ~PinnedMemory();
  PinnedMemory(PinnedMemory&& other) noexcept { swap(other); }
  PinnedMemory& operator=(PinnedMemory&& other) noexcept {
    swap(other);
    return *this;
  }

  char* data() const { return data_; }
  std::size_t size_bytes() const { return size_bytes_; }
  /// Where a GPU finds it.
  CUdeviceptr device_address() const { return device_address_; }

 private:
  void swap(PinnedMemory& other) {
    std::swap(driver_, other.driver_);
    std::swap(context_, other.context_);
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    std::swap(device_address_, other.device_address_);
  }
  const Driver* driver_ = nullptr;
  CUcontext context_ = nullptr;
  char* data_ = nullptr;
  std::size_t size_bytes_ = 0;
  CUdeviceptr device_address_ = 0;
};

}  // namespace meshbed::cuda

#pragma once
// Device memory: memory of a simulated GPU, which adapters can access and the program's CPU cannot.
//
// A buffer is one memory mapped twice. Programs get the address of a mapping without any access rights, so that a CPU
// access through a device pointer crashes at once, as on a machine whose GPU memory is not mapped. The simulator uses
// the other mapping, which holds what the GPU sees. A buffer lives until it is freed and every dma-buf and registration
// of it is gone, as the driver's does (dma-buf.rst in Linux).
//
// A simulated CUDA driver is meant to stand on this: allocation, cuMemGetHandleForAddressRange, copies.

#include <cstdint>
#include <memory>

#include "sim/engine/world.h"

namespace meshbed::sim {

struct DeviceBuffer {
  DeviceBuffer(Process& owner, std::uint64_t size_bytes);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  Process& owner;  // whose GPU has it
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;  // whole pages
  char* bytes = nullptr;         // as the GPU sees them
};

/// Zeroed. Throws std::bad_alloc.
std::shared_ptr<DeviceBuffer> allocate_device_memory(Process& owner, std::uint64_t size_bytes);
/// From now on its address is invalid.
void free_device_memory(const DeviceBuffer& buffer);
/// The buffer that has all of these addresses; nullptr: none.
std::shared_ptr<DeviceBuffer> find_device_memory(std::uint64_t address, std::uint64_t length);

/// What a dma-buf descriptor stands for: `size_bytes` of the memory from `offset_bytes` on.
struct DmaBuf {
  std::shared_ptr<DeviceBuffer> memory;
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
};

/// A new descriptor of the memory's owner.
int export_dma_buf(const DmaBuf& buffer);
/// 0, or the error of Linux's dma_buf_get(): EBADF for no descriptor, EINVAL for one of something else.
int find_dma_buf(Process& process, int descriptor, DmaBuf& buffer);

}  // namespace meshbed::sim

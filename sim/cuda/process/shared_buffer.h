#pragma once
// Device memory of one program, in memory that it can map twice; where it is to be shared, in a file without a name
// (memfd_create(2)) that another process can map from its descriptor.

#include <sys/mman.h>
#include <unistd.h>

#include "sim/cuda/host.h"

namespace meshbed::sim::cuda {

struct SharedBuffer final : Buffer {
  SharedBuffer() = default;
  SharedBuffer(const SharedBuffer&) = delete;
  SharedBuffer& operator=(const SharedBuffer&) = delete;
  ~SharedBuffer() override {
    if (file >= 0) ::close(file);
    if (bytes == nullptr) return;
    ::munmap(bytes, size_bytes);
    ::munmap(reinterpret_cast<void*>(address), size_bytes);
  }
  int file = -1;  // its own descriptor of it
};

/// The memory, of that file or, with -1, of none; nullptr: the system has no room.
std::shared_ptr<SharedBuffer> map_buffer(std::uint64_t size_bytes, int file);

}  // namespace meshbed::sim::cuda

#pragma once
// Memory: whether the callers' buffers of all ranks, which share one process here, fit into this machine, and how they
// are paged.

#include <cstddef>
#include <cstdint>
#include <string>

namespace meshbed::testbed {

struct BufferNeed {
  int ranks = 0;
  int buffers_per_rank = 1;
  std::uint64_t buffer_bytes = 0;
};

/// MemAvailable of /proc/meminfo; the largest number where it cannot be read.
std::uint64_t available_memory_bytes();

/// Throws std::runtime_error if `need` exceeds `available_bytes`, with both figures and the value to which `option`
/// must be reduced.
void refuse_too_large(const BufferNeed& need, std::uint64_t available_bytes, const std::string& option);

/// Asks the kernel for large pages in that memory, which is to be written from end to end: a fault for 2 MiB, not for
/// 4 KiB (measured on the triangle's buffers of 64 MiB: 0.7 CPU seconds in place of 1.3). Without them nothing changes.
void prefer_large_pages(void* data, std::size_t size_bytes);

}  // namespace meshbed::testbed

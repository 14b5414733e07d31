#pragma once
// Memory: whether the callers' buffers of all ranks, which share one process here, fit into this machine.

#include <cstdint>
#include <string>

namespace meshbed::cli {

struct BufferNeed {
  int ranks = 0;
  int buffers_per_rank = 1;
  std::uint64_t buffer_bytes = 0;
};

/// MemAvailable of /proc/meminfo; the largest number where it cannot be read.
std::uint64_t available_memory_bytes();

/// Throws std::runtime_error where `need` exceeds `available_bytes`: what is needed, what is there, and to what
/// `option` has to be lowered.
void refuse_too_large(const BufferNeed& need, std::uint64_t available_bytes, const std::string& option);

}  // namespace meshbed::cli

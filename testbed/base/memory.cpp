#include "testbed/base/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <fstream>
#include <limits>
#include <stdexcept>

#include "plugin/base/units.h"
#include "testbed/base/units.h"

namespace meshbed::testbed {

std::uint64_t available_memory_bytes() {
  std::ifstream info("/proc/meminfo");
  for (std::string key; info >> key;) {
    std::uint64_t kibibytes = 0;
    if (key == "MemAvailable:" && info >> kibibytes) return kibibytes * kKiB;
  }
  return std::numeric_limits<std::uint64_t>::max();
}

void refuse_too_large(const BufferNeed& need, std::uint64_t available_bytes, const std::string& option) {
  const auto buffers = static_cast<std::uint64_t>(need.ranks) * static_cast<std::uint64_t>(need.buffers_per_rank);
  if (buffers == 0 || need.buffer_bytes <= available_bytes / buffers) return;
  // The product may not fit 64 bits; a size of that kind is only printed.
  const bool fits = need.buffer_bytes <= std::numeric_limits<std::uint64_t>::max() / buffers;
  throw std::runtime_error(fmt::format(
      "{}: {} with {} of {} need {} of memory, and this machine has {} left; lower it to {} or less, or take fewer "
      "ranks",
      option, counted(static_cast<std::uint64_t>(need.ranks), "rank"),
      counted(static_cast<std::uint64_t>(need.buffers_per_rank), "buffer") + (need.ranks > 1 ? " each" : ""),
      size_text(need.buffer_bytes), fits ? size_text(need.buffer_bytes * buffers) : "more than 16 EiB",
      size_text(available_bytes), size_text(available_bytes / buffers)));
}

void prefer_large_pages(void* data, std::size_t size_bytes) {
  constexpr std::size_t kLargePage = std::size_t{2} << 20U;
  // Only whole large pages can be one.
  const auto begin = (reinterpret_cast<std::uintptr_t>(data) + kLargePage - 1) / kLargePage * kLargePage;
  const auto end = (reinterpret_cast<std::uintptr_t>(data) + size_bytes) / kLargePage * kLargePage;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace meshbed::testbed

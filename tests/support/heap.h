#pragma once
// How much of this process's heap is in use: exact, where resident memory also counts an allocator's spare pages and a
// sanitizer's shadow.

#include <malloc.h>

#include <cstddef>

// Of AddressSanitizer's and ThreadSanitizer's runtime (sanitizer/allocator_interface.h of LLVM; GCC installs no such
// header): their allocators are the ones in use then, and mallinfo2 says zero.
extern "C" __attribute__((weak)) std::size_t __sanitizer_get_current_allocated_bytes();  // NOLINT

namespace meshbed::test {

inline std::size_t heap_in_use_bytes() {
  if (__sanitizer_get_current_allocated_bytes != nullptr) return __sanitizer_get_current_allocated_bytes();
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

}  // namespace meshbed::test

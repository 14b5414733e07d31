#include "tests/cost/allocation_counter.h"

#include <cerrno>
#include <cstddef>

// glibc's own names for what it exports as malloc() and so on.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {

thread_local std::uint64_t t_allocations = 0;

}  // namespace

extern "C" {

void* malloc(std::size_t size) noexcept {
  ++t_allocations;
  return __libc_malloc(size);
}

void* calloc(std::size_t count, std::size_t size) noexcept {
  ++t_allocations;
  return __libc_calloc(count, size);
}

void* realloc(void* memory, std::size_t size) noexcept {
  ++t_allocations;
  return __libc_realloc(memory, size);
}

void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  ++t_allocations;
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** memory, std::size_t alignment, std::size_t size) noexcept {
  ++t_allocations;
  *memory = __libc_memalign(alignment, size);
  return *memory != nullptr ? 0 : ENOMEM;
}

}  // extern "C"

namespace meshbed::test {

std::uint64_t allocations() { return t_allocations; }

}  // namespace meshbed::test

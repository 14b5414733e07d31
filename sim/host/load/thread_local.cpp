// thread_local of ranks. Simulated threads share one operating-system thread, and with it the real thread-local
// storage: copies reach theirs through __tls_get_addr(), which here answers with a block of the simulated thread's own.
// libstdc++ itself depends on it: what a thread has thrown and caught stands there.
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>

#include "plugin/base/check.h"
#include "sim/host/host_state.h"
#include "sim/host/load/redirection.h"

// Of glibc (ELF Handling For Thread-Local Storage, section 3.4.1); no public header declares it.
extern "C" void* __tls_get_addr(void* index);

namespace meshbed::sim {
namespace {

struct TlsIndex {
  unsigned long module;
  unsigned long offset;
};

/// The initial content of a module's thread-local storage: its PT_TLS segment.
struct Template {
  const void* image = nullptr;
  std::size_t image_bytes = 0;
  std::size_t size_bytes = 0;
  std::size_t alignment = 1;
};

Template find_template(unsigned long module) {
  struct Search {
    unsigned long module;
    Template found;
  } search{module, {}};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* argument) {
        auto& wanted = *static_cast<Search*>(argument);
        if (info->dlpi_tls_modid != wanted.module) return 0;
        for (const ElfW(Phdr)* program = info->dlpi_phdr; program != info->dlpi_phdr + info->dlpi_phnum; ++program) {
          if (program->p_type != PT_TLS) continue;
          wanted.found = {.image = reinterpret_cast<const void*>(info->dlpi_addr + program->p_vaddr),
                          .image_bytes = program->p_filesz,
                          .size_bytes = program->p_memsz,
                          .alignment = program->p_align};
        }
        return 1;
      },
      &search);
  MESHBED_CHECK(search.found.size_bytes > 0);
  return search.found;
}

TlsBlock make_block(unsigned long module) {
  const Template from = find_template(module);
  const std::size_t alignment = std::max(from.alignment, sizeof(void*));
  const std::size_t size = (from.size_bytes + alignment - 1) / alignment * alignment;
  TlsBlock block(static_cast<std::byte*>(std::aligned_alloc(alignment, size)), &std::free);
  if (block == nullptr) throw std::bad_alloc();
  std::memset(block.get(), 0, size);
  std::memcpy(block.get(), from.image, from.image_bytes);
  return block;
}

void* thread_local_address(TlsIndex* index) {
  if (outside()) return ::__tls_get_addr(index);
  auto& blocks = current_record().tls_blocks;
  auto found = blocks.find(index->module);
  if (found == blocks.end()) found = blocks.emplace(index->module, make_block(index->module)).first;
  return found->second.get() + index->offset;
}

/// Where the compiler registers destructors of thread_local objects.
int at_thread_exit(void (*destructor)(void*), void* object, void* library) {
  if (outside()) return 0;  // real threads of a rank's library end with the program
  static_cast<void>(library);
  current_record().exit_calls.emplace_back(destructor, object);
  return 0;
}

}  // namespace

void run_thread_exit_calls(ThreadRecord& record) {
  while (!record.exit_calls.empty()) {  // a destructor may register another
    const auto [destructor, object] = record.exit_calls.back();
    record.exit_calls.pop_back();
    destructor(object);
  }
}

std::span<const Redirection> thread_local_redirections() {
  static const std::array table{redirect("__tls_get_addr", &thread_local_address),
                                redirect("__cxa_thread_atexit_impl", &at_thread_exit)};
  return table;
}

}  // namespace meshbed::sim

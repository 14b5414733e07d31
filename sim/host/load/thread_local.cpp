// thread_local of ranks. Simulated threads share one operating-system thread, and with it the real thread-local
// storage: copies reach theirs through __tls_get_addr(), which here returns a block of the simulated thread's own.
// A static libstdc++ depends on it: it keeps there what a thread has thrown and caught. What copies reach without that
// call is in static_tls.h.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>

#include "plugin/base/check.h"
#include "sim/host/host_state.h"
#include "sim/host/load/redirection.h"
#include "sim/host/load/static_tls.h"

// Of glibc (ELF Handling For Thread-Local Storage, section 3.4.1); no public header declares it.
extern "C" void* __tls_get_addr(void* index);

namespace meshbed::sim {
namespace {

TlsBlock make_block(unsigned long module) {
  const TlsTemplate from = tls_template_of(module);
  MESHBED_CHECK(from.size_bytes > 0);
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
  ThreadRecord& record = current_record();
  auto found = record.tls_blocks.find(index->module);
  if (found == record.tls_blocks.end()) {
    const ProcessState& state = current_state();
    if (std::byte* place = state.static_tls.place_of(index->module)) return place + index->offset;
    if (state.tls_modules.count(index->module) == 0) return ::__tls_get_addr(index);
    found = record.tls_blocks.emplace(index->module, make_block(index->module)).first;
  }
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
                                redirect("__cxa_thread_atexit_impl", &at_thread_exit),
                                redirect("__cxa_thread_atexit", &at_thread_exit)};  // libstdc++'s name for it
  return table;
}

}  // namespace meshbed::sim

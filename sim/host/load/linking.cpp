// The dynamic linker as ranks see it: a library is this rank's copy, libibverbs.so.1 is the drop-in, and what a rank
// looks up by name is redirected like what it imports.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sim/host/host_state.h"
#include "sim/host/load/elf_image.h"
#include "sim/host/load/loader.h"
#include "sim/host/load/redirection.h"

namespace meshbed::sim {
namespace {

void* not_found(const std::string& text) {
  current_record().dl_error = text;
  return nullptr;
}

/// With RTLD_NOLOAD (dlopen(3)) only libraries that this process has already, independently of the simulation's other
/// processes; if it has none, dlerror() reports no error.
void* open_library(const char* name, int flags) {
  if (outside() || name == nullptr) return ::dlopen(name, flags);
  ProcessState& state = current_state();
  const bool only_loaded = (flags & RTLD_NOLOAD) != 0;
  const auto& libraries = host().options.libraries;
  const auto listed = libraries.find(name);
  if (listed != libraries.end() || *name == '/') {
    const std::string path = listed != libraries.end() ? listed->second : std::string(name);
    void* const before = loaded_by(state.process, path);
    if (only_loaded) return before;
    try {
      void* const copy = load_copy(state, path);
      if ((flags & RTLD_GLOBAL) != 0) {
        state.local_copies.erase(copy);
      } else if (before == nullptr) {
        state.local_copies.insert(copy);
      }
      return copy;
    } catch (const std::runtime_error& error) {
      return not_found(error.what());
    }
  }
  const auto& offered = host().offered_libraries;
  if (const auto found = offered.find(name); found != offered.end()) {
    const OfferedLibrary& library = found->second;
    const bool has_it = state.offered_libraries.count(name) != 0 || library.in_use(state.process);
    if (only_loaded && !has_it) return nullptr;
    state.offered_libraries.insert(name);
    return library.handle;
  }
  // Beside these a rank gets what the simulator itself has loaded (the drop-in libibverbs.so.1, libc, libm): real
  // libraries would talk to the real machine. CUDA is available only if the simulator offers it, even if a driver is
  // loaded in this process; and a search through the libraries of thousands of ranks takes long.
  if (std::string_view(name).starts_with("libcuda") || std::string_view(name).starts_with("libnvidia-ml")) {
    return not_found(std::string(name) + ": cannot open shared object file: no simulated GPU is here");
  }
  if (void* handle = ::dlopen(name, RTLD_NOW | RTLD_NOLOAD)) return handle;
  ::dlerror();
  return not_found(std::string(name) + ": cannot open shared object file: No such file or directory");
}

bool is_offered(void* handle) {
  const auto& offered = host().offered_libraries;
  return std::any_of(offered.begin(), offered.end(),
                     [handle](const auto& entry) { return entry.second.handle == handle; });
}

/// A copy stays loaded until the run ends: its threads may still run in it. What the simulator offers is its own.
int close_library(void* handle) {
  if (outside()) return ::dlclose(handle);
  return is_copy(current_state(), handle) || is_offered(handle) ? 0 : ::dlclose(handle);
}

/// RTLD_DEFAULT: what the program and the libraries that it is linked with, or has opened for all, have themselves.
void* find_in_program(const ProcessState& state, const char* name) {
  for (const auto& [path, copy] : state.libraries) {
    if (state.local_copies.count(copy) != 0) continue;
    void* symbol = ::dlsym(copy, name);
    if (symbol != nullptr && ElfImage(copy).holds(symbol)) return symbol;
  }
  return nullptr;
}

void* find_symbol(void* handle, const char* name) {
  if (outside()) return ::dlsym(handle, name);
  if (!is_copy(current_state(), handle)) {
    if (void* function = redirection_of(name)) return function;
  }
  static void* const all = ::dlopen(nullptr, RTLD_NOW);  // what dlopen(NULL) gives
  void* symbol = handle == RTLD_DEFAULT || handle == all ? find_in_program(current_state(), name) : nullptr;
  if (symbol == nullptr) symbol = ::dlsym(handle, name);
  if (void* kept = kept_nccl_call(current_state(), name, symbol)) return kept;
  if (symbol != nullptr) return symbol;
  const char* error = ::dlerror();
  return error != nullptr ? not_found(error) : nullptr;
}

void* find_versioned_symbol(void* handle, const char* name, const char* version) {
  if (outside()) return ::dlvsym(handle, name, version);
  if (!is_copy(current_state(), handle)) {
    if (void* function = redirection_of(name)) return function;
  }
  void* symbol = ::dlvsym(handle, name, version);
  if (symbol != nullptr) return symbol;
  const char* error = ::dlerror();
  return error != nullptr ? not_found(error) : nullptr;
}

char* last_error() {
  if (outside()) return ::dlerror();
  ThreadRecord& record = current_record();
  if (record.dl_error.empty()) return nullptr;
  record.dl_error_told = std::exchange(record.dl_error, {});
  return record.dl_error_told.data();
}

}  // namespace

std::span<const Redirection> linking_redirections() {
  static const std::array table{
      redirect("dlopen", &open_library), redirect("dlclose", &close_library),        redirect("dlsym", &find_symbol),
      redirect("dlerror", &last_error),  redirect("dlvsym", &find_versioned_symbol),
  };
  return table;
}

}  // namespace meshbed::sim

#pragma once
// The drivers of all ranks of a world, as tests may change them while it runs.

#include <dlfcn.h>
#include <doctest/doctest.h>

#include "sim/verbs/system.h"

namespace meshbed::test {

/// The simulator's, until a member is replaced. Within the world's own process.
inline sim::VerbsBackend& drivers() {
  static sim::VerbsBackend table = sim::verbs::backend_table();
  static const bool in_place = [] {
    void* library = ::dlopen(MESHBED_BINARY_DIR "/sim-lib/libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
    const auto set_backend =
        reinterpret_cast<int (*)(const sim::VerbsBackend*)>(::dlsym(library, sim::kSetBackendSymbol));
    return set_backend(&table) == 0;
  }();
  CHECK(in_place);
  return table;
}

}  // namespace meshbed::test

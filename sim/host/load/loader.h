#pragma once
// Loader: a rank's own copy of a shared object, with only the copy's own GOT redirected.
//
// glibc distinguishes objects by device and inode, so each copy is a memfd of its own that is loaded with
// dlopen(RTLD_LOCAL). To keep copies small, the read-only segments are then mapped again from one master memfd that all
// copies share (same bytes, compared first), the writable pages are made private, and the copy's memfd is emptied.
// A copy then consists of its writable pages and the dynamic linker's data.
// Cost: one copy and one comparison of the loaded segments' bytes, plus what dlopen does.

#include <cstddef>
#include <cstdint>
#include <string>

#include "sim/host/host_state.h"

namespace meshbed::sim {

/// As load_for(); `handle` of the process's copy. Throws std::runtime_error.
void* load_copy(ProcessState& state, const std::string& path);

/// What the loader runs of a library when it loads it, and at the end of all; addresses as in the file.
struct ProgramParts {
  std::uintptr_t init = 0, fini = 0;              // functions; 0: none
  std::uintptr_t init_array = 0, fini_array = 0;  // of functions
  std::size_t init_count = 0, fini_count = 0;
};

struct Program {
  void* handle = nullptr;
  ProgramParts parts;
};

/// The same of a program, of which nothing has run yet, so that all of it runs redirected.
Program load_program(ProcessState& state, const std::string& path);

/// True where `handle` is a copy that some process was given.
bool is_copy(const ProcessState& state, void* handle);

}  // namespace meshbed::sim

#pragma once
// Stack trace: addresses in a rank's copies of its files, as functions and lines of source. The lines come from
// addr2line (binutils, which compilers need as well). Without it, or without debug information, the texts are names of
// exported functions, or a file and an offset in it.

#include <span>
#include <string>
#include <vector>

#include "sim/host/host_state.h"

namespace meshbed::sim {

/// "fill (crash.c:12)", "main in four_ranks", "four_ranks+0x1234": the innermost call first. The simulator's own frames
/// below the program's main() are left out. `first_is_exact`: the first address is that of an instruction; all others
/// are return addresses.
std::vector<std::string> frame_texts(const ProcessState& state, std::span<const void* const> addresses,
                                     bool first_is_exact);

/// Whether the address lies in a file that the process has its own copy of. Safe in a signal handler.
bool is_in_copy(const ProcessState& state, const void* address);

}  // namespace meshbed::sim

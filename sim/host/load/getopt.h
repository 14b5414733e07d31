#pragma once
// getopt(3) of each process for itself. libc has one state for all ranks, and its variables (optarg, optind, ...) are
// not those of a program that holds copies of them (COPY relocations, as compilers make them for -pie). libc's own
// function reads a whole command line at once, and the program gets its answers one by one.

#include <string_view>

#include "sim/host/host_state.h"

namespace meshbed::sim {

/// Where a library's `optarg`, `optind`, `opterr` or `optopt` points; nullptr: `name` is none of these.
void* getopt_variable(ProcessState& state, std::string_view name);
/// Of the program's own copy of a variable of libc's: where it is one of these, it takes its place. False: it is none.
bool adopt_getopt_variable(ProcessState& state, std::string_view name, void* place);

}  // namespace meshbed::sim

#pragma once
// Getopt: getopt(3) for each process. libc has one state for all ranks, and its variables (optarg, optind, ...) are not
// those of a program that holds copies of them (COPY relocations, as compilers make them for -pie). Each call therefore
// begins anew in libc, repeats the earlier calls for this command line on the words as they were, and then makes the
// next one. Cost: the square of a command line's length.

#include <string_view>

#include "sim/host/host_state.h"

namespace meshbed::sim {

/// Where a library's `optarg`, `optind`, `opterr` or `optopt` is for this process; nullptr: `name` is none of these.
void* getopt_variable(ProcessState& state, std::string_view name);
/// Uses `place`, the program's own copy, in place of the variable `name`. False: `name` is none of these.
bool adopt_getopt_variable(ProcessState& state, std::string_view name, void* place);

}  // namespace meshbed::sim

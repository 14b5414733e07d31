#pragma once
// NcclLibrary: the libnccl.so.2 for the ranks of a program, by [workload] nccl.

#include <string>

#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

inline constexpr const char *kNcclDropin = "drop-in", *kNcclSystem = "system";

/// The file's path; `dropin` for kNcclDropin. "system": as the dynamic linker searches for a program's library, by the
/// program's DT_RUNPATH, LD_LIBRARY_PATH and the system's folders. Empty: there is none.
std::string nccl_library_of(const Scenario& scenario, const std::string& dropin);

/// Where a program of the user's calls its own NCCL: variables that NCCL reads have a reader then. The program may have
/// NCCL linked into it.
bool runs_own_nccl(const Scenario& scenario);

/// "2.30.7" of what ncclGetVersion() gives: since 2.9 two digits each for minor and patch, before it one for minor.
std::string nccl_version_text(int code);

}  // namespace meshbed::testbed

#pragma once
// ProgramRun: a program that is linked to NCCL, once for each rank of a scenario, with the library that the user gives.

#include <string>
#include <vector>

#include "cli/common/command_line.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

inline constexpr const char* kDropInNccl = "drop-in";  // as [workload] nccl has it

struct ProgramRun {
  std::string library;                         // the ranks' libnccl.so.2, or kDropInNccl
  std::string scenario;                        // its file
  std::string gpu;                             // every node has one of this model; empty: as the scenario says
  std::vector<std::string> overrides, faults;  // as of meshbed run
  std::string program;
  std::vector<std::string> arguments;  // the program's
  std::string results;                 // the folder
};

/// Every key that differs from the scenario's file, apart from those of the program itself.
std::vector<std::string> cluster_overrides(const ProgramRun& run);

/// Throws where one of the two is not given. `command` is named first, here and below.
void require_library_and_scenario(const std::string& command, const ProgramRun& run);

/// Throws where the library cannot run on a GPU of the scenario's, or a node has none.
void require_gpus_that_fit(const std::string& command, const ProgramRun& run);

/// LD_LIBRARY_PATH of ranks that are processes: the library's folder, those of Meshbed's plugins and of its MPI, by
/// which ranks meet in each world, then where they would look anyway.
std::string library_path(const std::string& library);

/// The words of `meshbed run` that come to the same in virtual time.
Arguments simulated_words(const ProgramRun& run);

}  // namespace meshbed::testbed

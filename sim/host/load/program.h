#pragma once
// A rank's program: main() of an unmodified file, run by a thread of the rank's process.
//
// The file is a shared object with a main(), or a position-independent program as compilers make it (-pie, the default
// of Debian's): the loader accepts the latter as the former if its flag (DF_1_PIE, elf.h) is cleared in the copy, and
// its _start contains the address of main() (System V ABI; glibc's sysdeps/x86_64/start.S passes it to
// __libc_start_main).

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/engine/world.h"

namespace meshbed::sim {

/// Loads the file for the current process and runs its main() with argv[0] = `path` and these arguments; what it
/// returned, or handed to exit(); 134 for abort(), as a shell has it. Throws std::runtime_error where the file cannot
/// be loaded, with what to do about it, and ProgramStopped where a ProgramGuard has stopped it.
int run_program(const std::string& path, const std::vector<std::string>& arguments);

/// While it lives, what is written to stdout and std::cout in a simulated process goes to `print`, a line at a time and
/// each from one process; what does not end with a line's end comes last. One at a time.
class ProgramOutput {
 public:
  using Print = std::function<void(const Process&, std::string_view line)>;

  explicit ProgramOutput(Print print);
  ~ProgramOutput();
  ProgramOutput(const ProgramOutput&) = delete;
  ProgramOutput& operator=(const ProgramOutput&) = delete;

 private:
  class State;
  State* const state_;
};

}  // namespace meshbed::sim

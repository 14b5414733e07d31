#pragma once
// A rank's program: main() of an unmodified file, run by a thread of the rank's process.
//
// The file is a shared object with a main(), or a position-independent program as compilers make it (-pie, the default
// of Debian's): the loader accepts the latter as the former if its flag (DF_1_PIE, elf.h) is cleared in the copy, and
// its _start contains the address of main() (System V ABI; glibc's sysdeps/x86_64/start.S passes it to
// __libc_start_main).

#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "sim/engine/world.h"

namespace meshbed::sim {

/// Loads the file for the current process and runs its main() with argv[0] = `path` and these arguments; what it
/// returned, or handed to exit(); 134 for abort(), as a shell has it. Throws std::runtime_error where the file cannot
/// be loaded, with what to do about it, and ProgramStopped where a ProgramGuard has stopped it.
int run_program(const std::string& path, const std::vector<std::string>& arguments);

/// While it lives, what simulated processes write to stdout, std::cout and descriptor 1 goes to `print`, a line at a
/// time and each from one process; what does not end with a line's end comes last. What they write to stderr,
/// std::cerr, std::clog and descriptor 2 passes through. A program that writes when all of them have written more than
/// `limit_bytes` is stopped (ProgramGuard), and what comes after is dropped. One at a time.
class ProgramOutput {
 public:
  struct Options {
    std::function<void(const Process& process, std::string_view line)> print;
    std::uint64_t limit_bytes = std::numeric_limits<std::uint64_t>::max();
  };

  explicit ProgramOutput(Options options);
  ~ProgramOutput();
  ProgramOutput(const ProgramOutput&) = delete;
  ProgramOutput& operator=(const ProgramOutput&) = delete;

  class State;

 private:
  State* const state_;
};

/// 1 or 2 for what stands in the place of stdout or stderr; -1: another stream. It is all ranks': none closes it or
/// gives it a buffer.
int output_descriptor_of(const std::FILE* stream);

/// write(2) of a simulated process to a descriptor of the operating system. False where that is not standard output or
/// standard error, or no ProgramOutput exists: nothing was written.
bool write_program_output(int descriptor, std::string_view text);

}  // namespace meshbed::sim

#pragma once
// Programs that we start: none of them outlives us, however we end.
//
// A child gets SIGKILL from the kernel when the thread that started it ends (PR_SET_PDEATHSIG): start children from a
// thread that lives as long as they are needed.

#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace meshbed::emu {

struct SpawnOptions {
  std::vector<std::string> argv;  // the program is looked up in PATH
  std::string directory;          // where it starts; empty: here
  int input = -1;                 // standard input; -1: /dev/null
  int output = -1;                // standard output; -1: /dev/null
  int errors = -1;                // standard error; -1: /dev/null
  std::vector<int> descriptors;   // become 3, 4, ... in the child
  bool own_group = false;         // Ctrl-C on the terminal does not reach it
};

/// Starts a program; its process id. Throws std::runtime_error where it cannot be started, naming it.
pid_t spawn(const SpawnOptions& options);

struct ProgramResult {
  int status = -1;                   // exit status; 128 + signal where one ended it
  std::string output;                // standard output, where it was not sent elsewhere
  std::string errors;                // standard error
  double cpu_s = 0;                  // of it and of those children that it has waited for
  std::uint64_t resident_bytes = 0;  // at most
};

/// Runs a program to its end. `output`: a descriptor for its standard output instead of ProgramResult::output; -1:
/// none. Throws std::runtime_error where it cannot be started.
ProgramResult run_program(const std::vector<std::string>& argv, const std::string& directory = "", int output = -1);

/// Likewise; `output` and `errors` of the options, where they are none, are ProgramResult's.
ProgramResult run_program(SpawnOptions options);

/// Waits for a child's end; exit status, or 128 + the signal that ended it. `usage`: what it took, unless it is
/// nullptr.
int wait_for_exit(pid_t process, rusage* usage = nullptr);

/// The last line of `text` that is not blank; empty where there is none.
std::string last_line(const std::string& text);

}  // namespace meshbed::emu

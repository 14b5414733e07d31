#pragma once
// command: runs a program as a user would, and hands back what it printed.

#include <string>

namespace meshbed::test {

struct CommandResult {
  int status = -1;     // exit status; 128 + signal where one ended it
  std::string output;  // standard output
};

/// Through /bin/sh; standard error goes where the test's own goes, unless the command says otherwise.
CommandResult run_command_line(const std::string& command_line);

/// The built meshbed and its scenarios, quoted for the shell.
std::string meshbed_program();
std::string scenario_file(const std::string& name);

/// An empty folder for this test's results, below the build folder; gone when the process ends.
std::string scratch_folder(const std::string& name);

}  // namespace meshbed::test

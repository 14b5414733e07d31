#pragma once
// What the two programs of the command line share. bin/meshbed has the commands that run a scenario and that look at
// one; bin/meshbed-tools those that measure, sweep and verify (cli/bench, testbed/verify), so that a first
// result does not wait for them to be compiled. Each program knows all commands and hands over to the other one.

#include <span>
#include <string>

#include "cli/command/commands.h"

namespace meshbed::testbed {

struct OwnCommand {
  const char* name;
  CommandFunction function;
};

/// The program's main: finds the command in `own`, hands over to the other program where the command is that one's, and
/// turns exceptions into one line. Returns the exit status.
int run_program(std::span<const OwnCommand> own, int argc, char** argv);

bool is_command_of_tools(const std::string& name);

/// Goes on as another command, with these words behind `meshbed`, in this process. Returns only where that cannot be,
/// with the exit status.
int become_command(const Arguments& words);

}  // namespace meshbed::testbed

#pragma once
// The common part of the two programs of the command line. bin/meshbed has the commands that run or inspect a scenario;
// bin/meshbed-tools those that measure, sweep and verify (cli/bench, testbed/verify), so that a first result does not
// wait for their compilation. Each program knows all commands and starts the other program for the other's commands.

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

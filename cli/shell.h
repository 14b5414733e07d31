#pragma once
// meshbed shell: a scenario's cluster in virtual machines, and a shell in one of its nodes.

#include <iosfwd>

#include "cli/command.h"

namespace meshbed::cli {

/// Boots all nodes of the scenario; standard input and output are those of a shell in NODE, as root of that machine, on
/// the real rdma-core. When the shell ends (or standard input does), so do the machines, and the status is the shell's;
/// 1 where a machine was in trouble.
int shell_command(const Arguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshbed::cli

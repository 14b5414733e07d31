#pragma once
// Needs: the targets and packages that a command line needs before it can run. `meshbed --needs ARGUMENT...` prints
// them for the launcher, which builds and installs them and then starts the command.

#include <string>
#include <vector>

#include "cli/common/command_line.h"

namespace meshbed::testbed {

struct Needs {
  std::vector<std::string> targets;   // of ninja; empty: the command line prints help, for which nothing is built
  std::vector<std::string> packages;  // names of groups of packages in cmake/launcher/packages.sh
};

/// `words`: those behind `meshbed`. Reads the scenario that they name. A command line with an error needs at most the
/// programs, one of which then reports the error.
Needs needs_of(const Arguments& words);

/// A line each: "target NAME", "packages GROUP".
std::string to_text(const Needs& needs);

/// Whether --help or -h is one of the command's own words.
bool asks_for_help(const Arguments& words);

}  // namespace meshbed::testbed

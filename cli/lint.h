#pragma once
// meshbed lint: what a scenario may well say, but an owner of such a cluster would want to know.
//
// Errors (cli/scenario.h) stop a reading; findings do not, because a wrong subnet is a thing worth simulating.

#include <iosfwd>
#include <string>
#include <vector>

#include "cli/scenario.h"

namespace meshbed::cli {

/// One line each: what is odd, where, and what follows from it.
std::vector<std::string> lint_findings(const Scenario& scenario);

/// meshbed lint [--set KEY=VALUE]... FILE..., or --dictionary. Reads every file, prints all errors and findings.
/// 0: nothing found; 1: findings or errors; 2: no file named. Throws on options that do not exist.
int lint_command(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

}  // namespace meshbed::cli

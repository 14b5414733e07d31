#pragma once
// meshbed lint: what a scenario may well say, but an owner of such a cluster would want to know.
//
// Errors (cli/scenario/scenario.h) stop a reading; findings do not, because a wrong subnet is a thing worth simulating.

#include <iosfwd>
#include <string>
#include <vector>

#include "cli/scenario/scenario.h"

namespace meshbed::cli {

/// One line each: what is odd, where, and what follows from it.
std::vector<std::string> lint_findings(const Scenario& scenario);

}  // namespace meshbed::cli

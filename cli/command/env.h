#pragma once
// meshbed env: all variables that the net plugin reads, with the value in effect and its source.

#include <string>

#include "cli/common/command_line.h"

namespace meshbed::testbed {

/// NCCL_IB_HCA of this shell lets in no port of this machine, which has some; empty: it does, or is not set.
std::string hca_problem_of_shell();

}  // namespace meshbed::testbed

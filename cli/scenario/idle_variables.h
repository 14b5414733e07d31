#pragma once
// Idle variables: what a scenario sets for NCCL that nobody here reads, so that no result is taken for theirs.

#include <string>
#include <vector>

#include "cli/scenario/scenario.h"

namespace meshbed::cli {

/// What `name` would do in NCCL, and that it does nothing here, or which name was meant; empty: somebody reads it, or
/// it is none of NCCL's.
std::string idle_variable_note(const std::string& name);

/// Of all nodes, each once: idle variables, and an NCCL_SOCKET_IFNAME that fits no interface of
/// a node, said of the first such node.
std::vector<std::string> idle_variable_notes(const Scenario& scenario);

}  // namespace meshbed::cli

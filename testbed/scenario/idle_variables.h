#pragma once
// Idle variables: NCCL variables of a scenario or a shell that have no effect here, or that prevent NCCL from using the
// plugin. They are reported, so that no result is attributed to them.

#include <string>
#include <vector>

#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

/// What `name` would do in NCCL, and that it does nothing here, or which name was meant; empty: it has a reader here,
/// or is not one of NCCL's. NCCL's names are those of testbed/scenario/nccl_variables.def; `own_nccl`: NCCL itself runs
/// and reads all of them (nccl_library.h).
std::string idle_variable_note(const std::string& name, bool own_nccl = false);

/// What NCCL_NET and NCCL_NET_PLUGIN make NCCL take instead of Meshbed's plugin, and the fix; empty: they take it, or
/// `name` is another variable.
std::string bypass_note(const std::string& name, const std::string& value);

/// Of all nodes, each once: idle variables, variables that bypass the plugin, and an NCCL_SOCKET_IFNAME that leaves no
/// interface of a node, or none on a network that joins all nodes; said of the first such node.
std::vector<std::string> idle_variable_notes(const Scenario& scenario);

}  // namespace meshbed::testbed

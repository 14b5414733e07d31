#pragma once
// The emulated world without virtual machines: all nodes in this host's own kernel, on its soft-RoCE. Needs root.

#include <string>

#include "emu/namespace/namespace_host.h"
#include "testbed/world/emulate.h"

namespace meshbed::testbed {

/// What `meshbed emu up` and a run would set up for the scenario: the same plan, but for its owner.
emu::NamespacePlan namespace_plan(const Scenario& scenario, emu::NamespaceLayout layout, const std::string& owner);

/// The scenario is what `meshbed emu up` has set up, and we may use it. Asks nothing of the host and changes nothing.
bool stands_in_namespaces(const Scenario& scenario);

/// As emulate(), which hands on to it. What `meshbed emu up` has set up is used and left; else it is set up, and taken
/// down however the run ends. Throws std::runtime_error, one line, where that cannot be, or where the scenario is not
/// the one that is up.
Emulation emulate_in_namespaces(const Scenario& scenario, const EmulateOptions& options);

}  // namespace meshbed::testbed

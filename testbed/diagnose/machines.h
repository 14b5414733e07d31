#pragma once
// What is visible in the state of machines: archives and folders of `meshbed collect`, or their netplan files.

#include <string>
#include <vector>

#include "testbed/diagnose/evidence.h"

namespace meshbed::testbed::diagnose {

/// An archive, or a folder as collect's archives contain it (its file "missing", or etc/netplan).
bool is_machine(const std::string& path);

/// Makes a scenario of them (testbed/import), one node a path, and adds the causes that it shows, and those of limits,
/// PCIe links and firewalls. Throws std::runtime_error as import does.
void read_machines(const std::vector<std::string>& paths, Case& found);

}  // namespace meshbed::testbed::diagnose

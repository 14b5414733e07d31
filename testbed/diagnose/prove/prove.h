#pragma once
// Prove: runs that show a cause. A suspected fault is put into a scenario, which then runs on the real net plugin in
// the simulated world (libmeshbed's run()); what it logs and leaves is diagnosed like any other log.

#include <cstddef>
#include <string>
#include <vector>

#include "testbed/diagnose/diagnose.h"

namespace meshbed::testbed::diagnose {

/// Sets FoundCause::proof of up to `most` reproducible causes, the most likely first: the scenario as it is, then with
/// the fault where the evidence names its place, then elsewhere. One that no run shows gets none. `path`: of a scenario
/// file; empty: a built-in pair with two cables. `overrides`: as --set takes them. Throws meshbed::InvalidScenario, a
/// std::runtime_error, for a scenario that cannot be read, and meshbed::RunError where no run can take place.
void prove(Diagnosis& diagnosis, const std::string& path, const std::vector<std::string>& overrides, std::size_t most);

}  // namespace meshbed::testbed::diagnose

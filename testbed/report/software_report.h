#pragma once
// What a run's software cost, which profile that came from, and how far the class's predictions are off.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "testbed/scenario/scenario.h"
#include "testbed/workload/collective.h"

namespace meshbed::testbed {

/// One line for the profile, one for each parameter that the call's time rests on, with basis and source, and one for
/// the call: what it took, the class's error, and what the class's model says by itself. `wanted` nullptr: messages
/// alone. Empty under the profile "ideal".
std::vector<std::string> software_lines(const Scenario& scenario, const CollectiveCase* wanted, Picoseconds time_ps);

/// "114.2 us +- 21.2 %"; without the class's error where the profile has none.
std::string time_with_error(const Scenario& scenario, const CollectiveCase& wanted, Picoseconds time_ps);

/// The same as JSON; null under the profile "ideal". `beyond_error`: the run and the class's model differ by more than
/// the class's error.
nlohmann::ordered_json software_json(const Scenario& scenario, const CollectiveCase* wanted, Picoseconds time_ps);

}  // namespace meshbed::testbed

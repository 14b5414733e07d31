#pragma once
// What a run's software cost, which profile that comes from, and how far the class's predictions are off.

#include <string>

#include "testbed/result/document.h"
#include "testbed/scenario/scenario.h"
#include "testbed/workload/collective.h"

namespace meshbed::testbed::document {

Section software_section_shape();
/// The profile, each parameter that the call's time rests on, and the call beside the class's model and error. `wanted`
/// nullptr: messages alone. Without values under the profile "ideal".
Section software_section(const Scenario& scenario, const CollectiveCase* wanted, Picoseconds time_ps);

/// "114.2 us +- 21.2 %"; without the class's error where the profile has none.
std::string time_with_error(const Scenario& scenario, const CollectiveCase& wanted, Picoseconds time_ps);

}  // namespace meshbed::testbed::document

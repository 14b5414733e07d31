#pragma once
// What a ring's control buffer and slots count, by the names that every description of a ring has them under.

#include <vector>

#include "plugin/ring/telemetry/telemetry.h"
#include "testbed/result/document.h"

namespace meshbed::testbed::document {

std::vector<Field> ring_counter_fields();
/// One value a field, in their order.
std::vector<Value> ring_counter_values(const ring::RuntimeCounters& counters);

}  // namespace meshbed::testbed::document

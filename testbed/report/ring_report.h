#pragma once
// Of a run's megakernels: how their rings ended, and which times were taken for granted.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "testbed/workload/megakernel/outcome.h"

namespace meshbed::testbed {

/// What a ring's control buffer and slots count, by the names that every description of a ring has them under.
nlohmann::ordered_json ring_counters_json(const ring::RuntimeCounters& counters);

/// For people.
std::vector<std::string> ring_lines(const RingOutcome& rings);
/// The same for programs.
nlohmann::ordered_json rings_json(const RingOutcome& rings);

}  // namespace meshbed::testbed

#pragma once
// Operations: for each collective of a run by which algorithm, protocol, channels and pairs of ports it went.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "testbed/scenario/scenario.h"
#include "testbed/workload/result.h"

namespace meshbed::testbed {

/// Equal operations in a row are one entry. Where the world has no trace until the run is over, the paths of each entry
/// are those of the whole run ("paths_of": "run").
nlohmann::ordered_json operations_json(const Scenario& scenario, const RunResult& result);

/// A line for each, with the paths where they are not all those of the run; empty where the run called no collective.
std::vector<std::string> operation_lines(const Scenario& scenario, const RunResult& result);

}  // namespace meshbed::testbed

#pragma once
// How a result was made.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "testbed/workload/result.h"

namespace meshbed::testbed {

/// Files, hashes, overrides, options: what provenance.json holds. The same for two runs of the same thing.
nlohmann::ordered_json provenance(const Scenario& scenario, const RunResult& result,
                                  const std::vector<std::string>& command_line);

}  // namespace meshbed::testbed

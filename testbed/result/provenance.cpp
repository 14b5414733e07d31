#include "testbed/result/provenance.h"

#include <nlohmann/json.hpp>

#include "testbed/scenario/placement.h"

namespace meshbed::testbed {

nlohmann::ordered_json provenance(const Scenario& scenario, const RunResult& result,
                                  const std::vector<std::string>& command_line) {
  return {{"meshbed", kVersion},
          {"command_line", command_line},
          {"scenario_file", scenario.path},
          {"scenario_sha256", sha256_of_file(scenario.path)},
          {"overrides", scenario.overrides},
          {"seed", scenario.seed},
          {"fabric", result.world.virtual_time ? nlohmann::ordered_json(fabric_name(scenario)) : nullptr},
          {"plugin_sha256", result.simulation.plugin_sha256},
          {"engine_sha256", result.simulation.engine_sha256},
          {"compiler", __VERSION__},
          {"digest", result.digest}};
}

}  // namespace meshbed::testbed

#pragma once
// A shipped scenario's run, and what its summary says.

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/command.h"

namespace meshbed::test {

/// `results`: the folder that the run writes, for who looks into it afterwards.
inline nlohmann::json summary_of_run(const std::string& scenario, const std::string& options, int& status,
                                     const std::string& results) {
  const CommandResult result = run_command_line(meshbed_program() + " run " + scenario_file(scenario) +
                                                " --json --results '" + results + "' " + options + " 2>/dev/null");
  status = result.status;
  return nlohmann::json::parse(result.output);
}

}  // namespace meshbed::test

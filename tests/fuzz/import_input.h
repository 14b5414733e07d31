#pragma once
// What `meshbed init` does with one file: it is read or refused in words, and what is read becomes a text that is TOML.

#include <stdexcept>
#include <string>

#include "testbed/base/diagnostics.h"
#include "testbed/import/import.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::test {

/// Empty: all is well; else what is wrong.
inline std::string import_problem(const std::string& path, const std::string& text) {
  std::string toml;
  try {
    const testbed::hosts::Machines machines = testbed::hosts::read_text(path, text);
    toml = testbed::hosts::scenario_of(machines, {}).toml;
  } catch (const std::runtime_error& error) {
    return std::string(error.what()).empty() ? "refused without a reason" : "";
  }
  constexpr std::size_t kMostBytes = 1U << 20U;  // what is larger is a cluster of thousands of nodes, and takes seconds
  if (toml.size() > kMostBytes) return "";
  try {
    (void)testbed::parse_scenario(toml, "imported.toml", {});
  } catch (const testbed::ScenarioError& error) {
    const std::string what = error.what();
    if (what.find("not TOML") != std::string::npos || what.find("unknown key") != std::string::npos) {
      return what + "\n" + toml;
    }
  }
  return "";
}

}  // namespace meshbed::test

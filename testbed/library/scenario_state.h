#pragma once
// The state of a meshbed::Scenario.

#include <string>
#include <vector>

#include "meshbed/scenario.h"
#include "testbed/scenario/findings/findings.h"
#include "testbed/scenario/scenario.h"

namespace meshbed {

struct Scenario::State {
  std::string text, path;
  std::vector<std::string> overrides;
  testbed::Scenario parsed;
};

namespace testbed {

std::vector<meshbed::Finding> public_findings(const std::vector<Finding>& findings);
/// What the reader refused.
InvalidScenario invalid(const ScenarioError& error);

}  // namespace testbed
}  // namespace meshbed

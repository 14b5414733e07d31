#pragma once
// What the scenario reader refuses, and in which words.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "testbed/scenario/scenario.h"

namespace meshbed::test {

/// Whether the reader refuses the scenario with these overrides; what it says has to have these words in it.
inline bool refuses(const std::string& scenario, const std::vector<std::string>& overrides, const std::string& words) {
  try {
    (void)testbed::parse_scenario(scenario, "test.toml", overrides);
  } catch (const testbed::ScenarioError& error) {
    const std::string text = error.what();
    CHECK_MESSAGE(text.find(words) != std::string::npos, text);
    return true;
  }
  return false;
}

}  // namespace meshbed::test

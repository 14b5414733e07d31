// libFuzzer target: a scenario file. The first line may hold a --set argument after "#!set ", so that the fuzzer
// reaches overrides as well. Seeds: scenarios/*.toml.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "testbed/scenario/findings/findings.h"
#include "testbed/scenario/scenario.h"
#include "testbed/topology/report.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::string mark = "#!set ";
  std::vector<std::string> overrides;
  if (text.rfind(mark, 0) == 0) overrides.push_back(text.substr(mark.size(), text.find('\n') - mark.size()));
  try {
    const auto scenario = meshbed::testbed::parse_scenario(text, "fuzz.toml", overrides);
    // Small clusters go the whole way; what costs seconds would only slow the search down.
    if (scenario.cluster.nodes.size() > 16) return 0;
    (void)meshbed::testbed::findings_of(scenario);
    (void)meshbed::testbed::topology_report(scenario, false);
    if (scenario.cluster.cables.size() <= 32) (void)meshbed::testbed::topology_svg(scenario);
  } catch (const meshbed::testbed::ScenarioError&) {
    return 0;  // the only exception that a file may cause
  }
  return 0;
}

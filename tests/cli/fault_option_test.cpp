// --fault: a fault of the command line, in the keys of [[fault]].
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "testbed/base/diagnostics.h"
#include "testbed/scenario/override.h"
#include "testbed/scenario/scenario.h"

namespace fault_option_test {

using namespace meshbed::testbed;
using meshbed::kPicosecondsPerMillisecond;

namespace {

constexpr const char* kTriangle = R"(
[topology]
kind = "ring"
nodes = 3
[[fault]]
kind = "cable_down"
target = "node1-node2"
)";

Scenario with(const std::vector<std::string>& faults) {
  std::vector<std::string> overrides;
  for (const std::string& each : faults) overrides.push_back(fault_override(each));
  return parse_scenario(kTriangle, "triangle.toml", overrides);
}

std::string refusal(const std::string& fault) {
  try {
    with({fault});
  } catch (const ScenarioError& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("--fault adds to the file's faults, with the units and defaults of [[fault]]") {
  const Scenario scenario = with({"cable_down,target=node0-node1,at=2ms,duration=500us",
                                  "rate,target=node0/rocep1s0f1,amount=10Gb/s,point=iteration,iteration=0"});
  REQUIRE(scenario.faults.size() == 3);
  CHECK(scenario.faults[0].target == "node1-node2");
  CHECK(scenario.faults[1].kind == FaultKind::kCableDown);
  CHECK(scenario.faults[1].target == "node0-node1");
  CHECK(scenario.faults[1].at_ps == 2 * kPicosecondsPerMillisecond);
  CHECK(scenario.faults[1].duration_ps == kPicosecondsPerMillisecond / 2);
  CHECK(scenario.faults[2].amount == 1e10);
  CHECK(scenario.faults[2].point == "iteration");
}

TEST_CASE("a wrong --fault names itself, and the nearest names") {
  CHECK(has(refusal("cable_dwn,target=node0-node1"), "--fault cable_dwn,target=node0-node1: "));
  CHECK(has(refusal("cable_dwn,target=node0-node1"), "did you mean 'cable_down'?"));
  CHECK(has(refusal("cable_down,target=node0-node4"), "did you mean 'node0-node1'?"));
  CHECK(has(refusal("port_down,target=node0/rocep1s0f2"), "did you mean 'node0/rocep1s0f"));
  CHECK(has(refusal("node_kill,target=nod0"), "did you mean 'node0'?"));
  CHECK(has(refusal("cable_down,targt=node0-node1"), "targt"));
  CHECK(has(refusal("cable_down"), "needs kind and target"));
  CHECK(has(refusal("cable_down,target=node0-node1,at"), "'at': write KIND,KEY=VALUE"));
  CHECK(has(refusal("target=node0-node1"), "'target=node0-node1': write KIND,KEY=VALUE"));
  CHECK(has(refusal(""), "write KIND,KEY=VALUE"));
  CHECK(has(refusal("cable_down,target=a,target=b"), "'target' is given twice"));
  CHECK(has(refusal("cable_down,kind=port_down,target=a"), "'kind' is given twice"));
  CHECK(has(refusal("cable_down,target=node0-node1,at=soon"), "at"));
}

}  // namespace fault_option_test

// What a class of machines leaves of a scenario's rates, and what it adds to the calls of a sweep.
#include <doctest/doctest.h>

#include "cli/bench/perf_sweep.h"
#include "testbed/scenario/scenario.h"
#include "testbed/workload/software.h"

namespace workload_software_test {

using namespace meshbed;
using namespace meshbed::testbed;

TEST_CASE("what a host feeds its NICs is shared by those that hang on cables, not by idle ones") {
  models::Machine machine;
  machine.set(models::MachineParameter::kPacketOverheadBytes, {0, models::Basis::kMeasured, "this test"});
  machine.set(models::MachineParameter::kHostCapGBps, {5, models::Basis::kMeasured, "this test"});
  const auto reached = [&](const std::string& nics) {
    Scenario scenario =
        parse_scenario("[topology]\nkind = \"ring\"\nnodes = 4\nrate = \"100Gb/s\"\n" + nics, "test.toml", {});
    scenario.software.machine = std::make_shared<const models::Machine>(machine);
    return reached_cluster(scenario);
  };
  REQUIRE(reached("rails = 1\nnics = 6\n").nodes[0].nics.size() == 6);
  CHECK(reached("rails = 1\nnics = 6\n").cables[0].rate_bps == 20'000'000'000);  // 40 Gb/s for two NICs with a cable
  CHECK(reached("").cables[0].rate_bps == 20'000'000'000);
}

TEST_CASE("a sweep's software costs are those of its element type's sizes") {
  models::Machine machine;
  machine.set(models::MachineParameter::kReduceGBps, {0.001, models::Basis::kMeasured, "this test"});
  Scenario scenario = parse_scenario("[topology]\nkind = \"ring\"\nnodes = 4\n", "test.toml", {});
  scenario.software.machine = std::make_shared<const models::Machine>(machine);
  PerfOptions options;
  options.iterations = 1;
  options.sweep.min_bytes = options.sweep.max_bytes = 63;  // 60 of floats
  const auto spent_ps = [&](coll::DataType type) {
    options.types = {type};
    return plan_sweep(options, scenario).at(0).in_place.spent_ps;
  };
  CHECK(spent_ps(coll::DataType::kInt8) > spent_ps(coll::DataType::kFloat32));
}

}  // namespace workload_software_test

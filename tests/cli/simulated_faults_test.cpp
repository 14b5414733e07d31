// Who waits at a fault point in the simulated world, and for how long.
#include "testbed/world/simulated_faults.h"

#include <doctest/doctest.h>

#include "sim/verbs/verbs_host.h"
#include "tests/support/run_world.h"

namespace simulated_faults_test {

using namespace meshbed;
using namespace meshbed::testbed;
using namespace meshbed::test;

TEST_CASE("a rank that comes to a point after it was answered, because its node stood still, goes on") {
  const Scenario scenario = parse_scenario(
      "[topology]\nkind = \"ring\"\nnodes = 2\n[workload]\nbytes = \"4K\"\n"
      "[[fault]]\nkind = \"delay\"\namount = \"1us\"\ntarget = \"node0-node1\"\n",
      "test.toml", {});
  const WorldResult result = run_world({.cluster = scenario.cluster}, [&](sim::World& world) {
    sim::install_verbs(world, std::string(MESHBED_BINARY_DIR) + "/sim-lib/libibverbs.so.1", nullptr);
    auto* faults = new SimulatedFaults(scenario, world, [](int) {});  // as long as the child
    for (int rank = 0; rank < 2; ++rank) {
      sim::Process& process = world.add_process(rank, rank, "rank");
      world.spawn(process, "main", [&world, faults, rank] {
        if (rank == 1) world.sleep(kPicosecondsPerMillisecond);
        faults->reach(kPointStart);
        CHECK(world.now() == (rank == 1 ? kPicosecondsPerMillisecond : 0));
        CHECK(faults->taken().size() == 1);
        CHECK(world.network().shape({0, 0}).delay_ps == kPicosecondsPerMicrosecond);
      });
    }
  });
  CHECK(result.outcome == sim::OutcomeKind::kFinished);
}

}  // namespace simulated_faults_test

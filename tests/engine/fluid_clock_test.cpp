// Flows keep SimGrid's clock, events keep ours: the two must not part.
#include <doctest/doctest.h>

#include "sim/engine/fabric.h"
#include "tests/support/run_world.h"

namespace fluid_clock_test {

using namespace meshbed;

namespace {

void remember_end(void* self, std::uint64_t) { *static_cast<Picoseconds*>(self) = sim::World::get().now(); }

}  // namespace

TEST_CASE("a flow ends on time although a thread wakes up and sleeps again while it is under way") {
  sim::WorldOptions options{.cluster = test::ring_cluster(2), .fabric = sim::FabricKind::kFluid};
  test::run_world(options, [](sim::World& world) {
    auto& process = world.add_process(0, 0, "rank 0");
    world.spawn(process, "main", [&world] {
      Picoseconds end = -1;
      world.fabric().transfer(*world.network().path({0, 0}, {1, 0}), 1'000'000, 1, remember_end, &end, 0);
      for (int step = 0; step < 10; ++step) world.sleep(30 * kPicosecondsPerMicrosecond);
      CHECK(end == 80 * kPicosecondsPerMicrosecond);
    });
  });
}

}  // namespace fluid_clock_test

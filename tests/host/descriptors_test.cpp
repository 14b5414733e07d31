#include "sim/host/file/descriptors.h"

#include <doctest/doctest.h>
#include <poll.h>

#include "tests/host/probe_world.h"

namespace descriptors_test {

using namespace meshbed;
using namespace meshbed::test;

TEST_CASE("an event descriptor wakes a poller exactly when it turns readable") {
  run_probe(ring_cluster(2), 1, [](const ProbeTable& probe, int) {
    sim::World& world = sim::World::get();
    sim::Process& process = *sim::World::current_process();
    const int descriptor = sim::make_event_descriptor(process);
    CHECK(descriptor >= sim::kFirstDescriptor);
    world.after(
        7 * kPicosecondsPerMicrosecond, 0,
        [](void* self, std::uint64_t number) {
          sim::set_readable(*static_cast<sim::Process*>(self), static_cast<int>(number), true);
        },
        &process, static_cast<std::uint64_t>(descriptor));
    int revents = 0;
    CHECK(probe.poll_for(descriptor, POLLIN, -1, &revents).elapsed_ns == 7'000);
    CHECK(revents == POLLIN);
    sim::set_readable(process, descriptor, false);
    CHECK(probe.poll_for(descriptor, POLLIN, 1, &revents).elapsed_ns == 1'000'000);
    CHECK(revents == 0);
    sim::close_descriptor(process, descriptor);
    CHECK(probe.close_descriptor(descriptor) == -EBADF);
  });
}

TEST_CASE("numbers are reused from the lowest") {
  run_probe(ring_cluster(2), 1, [](const ProbeTable&, int) {
    sim::Process& process = *sim::World::current_process();
    const int first = sim::make_event_descriptor(process);
    const int second = sim::make_event_descriptor(process);
    sim::close_descriptor(process, first);
    CHECK(sim::make_event_descriptor(process) == first);
    CHECK(sim::make_event_descriptor(process) == second + 1);
    CHECK(!sim::is_nonblocking(process, first));
  });
}

}  // namespace descriptors_test

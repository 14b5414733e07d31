#include "sim/host/thread/clocks.h"

#include <doctest/doctest.h>

#include <cstring>
#include <ctime>

#include "sim/host/thread/wait_queue.h"
#include "tests/host/probe_world.h"

namespace clocks_test {

using namespace meshbed;
using namespace meshbed::test;

TEST_CASE("clocks start at fixed times and agree with the virtual clock") {
  run_probe(ring_cluster(2), 2, [](const ProbeTable& probe, int) {
    CHECK(probe.clock_ns(CLOCK_REALTIME) == 1'767'225'600'000'000'000);
    CHECK(probe.clock_ns(CLOCK_MONOTONIC) == 1'000'000'000'000);
    CHECK(probe.clock_ns(CLOCK_BOOTTIME) == probe.clock_ns(CLOCK_MONOTONIC_RAW));
    CHECK(probe.clock_ns(1234) == -EINVAL);
    CHECK(probe.sleep_ns(1'234'567) == 1'234'567);
    CHECK(probe.clock_ns(CLOCK_MONOTONIC) == 1'000'001'234'567);
    CHECK(sim::World::get().now() == 1'234'567'000);
  });
}

TEST_CASE("a loop that only reads the clock comes to its end") {
  run_probe(ring_cluster(2), 1, [](const ProbeTable& probe, int) {
    CHECK(probe.read_clock_until_ns(20'000) >= 20'000);
    CHECK(probe.read_clock_until_ns(20'000) < 22'000);
  });
}

TEST_CASE("deadlines on each clock are simulated times, and absurd ones do not overflow") {
  using sim::deadline_of;
  CHECK(deadline_of(CLOCK_MONOTONIC, {1001, 5}) == kPicosecondsPerSecond + 5'000);
  CHECK(deadline_of(CLOCK_REALTIME, {sim::kRealtimeStartSeconds, 1}) == 1'000);
  CHECK(deadline_of(CLOCK_REALTIME, {0, 0}) == 0);
  CHECK(deadline_of(CLOCK_REALTIME, {INT64_MAX, 0}) == sim::kForever);
  CHECK(!deadline_of(CLOCK_REALTIME, {0, 1'000'000'000}));
  CHECK(!deadline_of(777, {0, 0}));
}

TEST_CASE("randomness repeats with the seed and differs between ranks and seeds") {
  const auto words = [](std::uint64_t seed) {
    return run_world(
               {.cluster = ring_cluster(2), .seed = seed},
               probe_ranks(2, [](const ProbeTable& probe, int) { report(std::to_string(probe.random_word()) + " "); }))
        .value;
  };
  const std::string first = words(1);
  CHECK(first == words(1));
  CHECK(first != words(2));
  const auto space = first.find(' ');
  CHECK(first.substr(0, space) != first.substr(space + 1, first.size() - space - 2));
}

TEST_CASE("a rank sees its own environment and nothing of the real one") {
  ::setenv("NCCL_FROM_OUTSIDE", "yes", 1);
  ::setenv("OTHER_FROM_OUTSIDE", "yes", 1);
  run_world({.cluster = ring_cluster(2)}, [](sim::World& world) {
    probe_ranks(2, [](const ProbeTable& probe, int rank) {
      CHECK(probe.variable("NCCL_FROM_OUTSIDE") == nullptr);
      CHECK(probe.variable("OTHER_FROM_OUTSIDE") == nullptr);
      CHECK(probe.variable("PATH") == nullptr);
      const char* before = probe.variable("MESHBED_TEST");
      CHECK(std::string(before) == "rank" + std::to_string(rank));
      probe.set_variable("MESHBED_TEST", "changed");
      CHECK(std::string(probe.variable("MESHBED_TEST")) == "changed");
      CHECK(std::string(before) == "rank" + std::to_string(rank));  // what was handed out stays
    })(world);
    for (const auto& process : world.processes()) process->environment["MESHBED_TEST"] = process->name;
  });
}

TEST_CASE("a rank is a process of its own on its own node") {
  run_probe(ring_cluster(3), 3, [](const ProbeTable& probe, int rank) {
    char name[64];
    CHECK(probe.host_name(name, sizeof(name)) == 0);
    CHECK(std::string(name) == "node" + std::to_string(rank));
    CHECK(probe.process_id() == 10'000 + 1'000 * rank);
  });
}

TEST_CASE("calls that would act on the simulator are refused with a warning each") {
  const auto result = run_probe(ring_cluster(2), 1, [](const ProbeTable& probe, int) { CHECK(probe.refused() == 0); });
  for (const char* name : {"fork()", "epoll_create1()", "timerfd_create()", "sigaction()", "pthread_kill()"}) {
    CHECK_MESSAGE(result.output.find(name) != std::string::npos, name);
  }
}

}  // namespace clocks_test

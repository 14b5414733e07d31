#include <doctest/doctest.h>

#include <array>
#include <cerrno>

#include "sim/engine/fiber.h"
#include "tests/host/probe_world.h"
#include "tests/support/no_memory_left.h"

namespace threads_test {

using namespace meshbed;
using namespace meshbed::test;

TEST_CASE("threads of a rank exclude one another") {
  run_probe(ring_cluster(2), 2, [](const ProbeTable& probe, int) { CHECK(probe.count_with_threads(5, 7) == 35); });
}

TEST_CASE(
    "pthread_create answers EAGAIN where there is no memory for another thread, and the next one is as the first") {
  if (!sim::kFibers) return;
  run_probe(ring_cluster(2), 1, [](const ProbeTable& probe, int) {
    const std::uint64_t before = sim::host_counters().live_threads;
    {
      const NoMemoryLeft limit(64 * 1024);  // a stack has 256 KiB
      CHECK(probe.create_thread() == EAGAIN);
    }
    CHECK(sim::host_counters().live_threads == before);
    CHECK(probe.create_thread() == 0);
    CHECK(sim::host_counters().live_threads == before);
  });
}

TEST_CASE("a condition variable hands every item over") {
  run_probe(ring_cluster(2), 1, [](const ProbeTable& probe, int) { CHECK(probe.queue_sum(100) == 5050); });
}

TEST_CASE("a condition's timeout is exact in virtual time") {
  run_probe(ring_cluster(2), 1, [](const ProbeTable& probe, int) {
    const auto outcome = probe.wait_on_condition(250);
    CHECK(outcome.error == ETIMEDOUT);
    CHECK(outcome.elapsed_ns == 250'000'000);
  });
}

TEST_CASE("a timed lock gives up exactly at its deadline") {
  run_probe(ring_cluster(2), 1, [](const ProbeTable& probe, int) {
    const auto outcome = probe.lock_held_mutex(30);
    CHECK(outcome.error == ETIMEDOUT);
    CHECK(outcome.elapsed_ns == 30'000'000);
  });
}

TEST_CASE("a mutex goes to the thread that has waited longest") {
  run_probe(ring_cluster(2), 1, [](const ProbeTable& probe, int) {
    std::array<int, 6> order{};
    CHECK(probe.lock_order(6, order.data()) == 6);
    CHECK(order == std::array{0, 1, 2, 3, 4, 5});
  });
}

TEST_CASE("recursive and error-checking mutexes answer as pthread_mutex_lock(3) says") {
  run_probe(ring_cluster(2), 1, [](const ProbeTable& probe, int) { CHECK(probe.mutex_errors() == 0); });
}

TEST_CASE("thread-specific data belongs to the simulated thread, and is destroyed with it") {
  run_probe(ring_cluster(2), 2, [](const ProbeTable& probe, int) { CHECK(probe.thread_data(4) == 0); });
}

TEST_CASE("thread_local values and exceptions being handled belong to the simulated thread") {
  run_probe(ring_cluster(2), 2, [](const ProbeTable& probe, int) { CHECK(probe.thread_locals(4) == 0); });
}

TEST_CASE("call_once and static locals run once where their routine sleeps") {
  run_probe(ring_cluster(2), 2, [](const ProbeTable& probe, int) { CHECK(probe.once_runs(4) == 11); });
}

TEST_CASE("semaphores count, barriers release all") {
  run_probe(ring_cluster(2), 1, [](const ProbeTable& probe, int) { CHECK(probe.semaphores_and_barriers() == 0); });
}

TEST_CASE("a writer is alone, readers are together") {
  run_probe(ring_cluster(2), 1, [](const ProbeTable& probe, int) { CHECK(probe.readers_and_writers() == 0); });
}

TEST_CASE("atomic waits sleep on a simulated futex") {
  run_probe(ring_cluster(2), 1, [](const ProbeTable& probe, int) { CHECK(probe.atomic_wait() == 7); });
}

TEST_CASE("threads that poll a flag under one mutex do not stop time") {
  run_probe(ring_cluster(2), 1, [](const ProbeTable& probe, int) {
    CHECK(probe.poll_shared_flag() == 1);
    CHECK(sim::World::get().now() >= kPicosecondsPerSecond);
    CHECK(sim::World::get().now() < kPicosecondsPerSecond + 20 * kPicosecondsPerMillisecond);
  });
}

TEST_CASE("crosswise locks are a deadlock that names the mutex waiter") {
  const auto result = run_probe(
      ring_cluster(2), 1, [](const ProbeTable& probe, int) { probe.cross_locks(); }, true);
  CHECK(result.outcome == sim::OutcomeKind::kDeadlock);
  CHECK(result.waiters.find("rank0 thread main: waits in pthread_mutex_lock for a mutex that thread 2 holds") !=
        std::string::npos);
}

TEST_CASE("threads run alike in every run and with every context factory") {
  const auto digest = [](const std::string& contexts) {
    const auto set_up = probe_ranks(2, [](const ProbeTable& probe, int rank) {
      probe.queue_sum(50);
      probe.count_with_threads(3 + rank, 5);
      CHECK(probe.thread_locals(3) == 0);
      report(std::to_string(rank) + ":" + std::to_string(sim::World::get().now()) + " ");
    });
    return run_world({.cluster = ring_cluster(2), .contexts = contexts}, set_up).value;
  };
  const auto first = digest("");
  CHECK(!first.empty());
  for (const char* contexts : {"", "raw", "ucontext", "thread"}) {
    INFO(contexts);
    CHECK(first == digest(contexts));
  }
}

}  // namespace threads_test

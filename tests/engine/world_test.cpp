// Threads, waiting, polling and the ends of a run.
#include <doctest/doctest.h>

#include <set>
#include <string>
#include <system_error>

#include "sim/engine/fiber.h"
#include "tests/support/no_memory_left.h"
#include "tests/support/run_world.h"

namespace world_test {

using namespace meshbed;
using sim::OutcomeKind;
using sim::World;

namespace {

sim::WorldOptions two_nodes() { return {.cluster = test::ring_cluster(2)}; }

void signal_process(void* self, std::uint64_t) {
  World::get().signal(*static_cast<sim::Process*>(self));
  World::get().progress();
}

void kill_first_node(void*, std::uint64_t) { World::get().kill_node(0); }

struct Log {
  std::string text;
};
void append(void* self, std::uint64_t argument) { static_cast<Log*>(self)->text += static_cast<char>(argument); }

}  // namespace

TEST_CASE("a sleep takes its time to the picosecond") {
  test::run_world(two_nodes(), [](World& world) {
    world.spawn(world.add_process(0, 0, "rank 0"), "main", [&world] {
      for (const Picoseconds step : {1LL, 999LL, 1'000'000'000'007LL, 3LL}) {
        const Picoseconds before = world.now();
        world.sleep(step);
        CHECK(world.now() - before == step);
      }
    });
  });
}

TEST_CASE("work takes its time, and a wake that came meanwhile is kept; no work is nothing at all") {
  test::run_world(two_nodes(), [](World& world) {
    auto& process = world.add_process(0, 0, "rank 0");
    auto& worker = world.spawn(process, "worker", [&world, &process] {
      const std::uint64_t events = world.events_run();
      world.spend(0);
      CHECK(world.events_run() == events);
      CHECK(world.now() == 0);
      world.spend(1'000);
      CHECK(world.now() == 1'000);
      world.block({.what = "test"});  // the wake of 400 ps is still there
      CHECK(world.now() == 1'000);
      CHECK(process.spent_ps == 1'000);
    });
    world.spawn(world.add_process(1, 1, "rank 1"), "waker", [&world, &worker] {
      world.sleep(400);
      world.wake(worker);
    });
  });
}

TEST_CASE("events of one time run in order of host, then of scheduling") {
  test::run_world(two_nodes(), [](World& world) {
    auto* log = new Log;
    world.at(100, 1, append, log, 'c');
    world.at(100, 0, append, log, 'a');
    world.at(100, 0, append, log, 'b');
    world.at(99, 1, append, log, '-');
    world.spawn(world.add_process(0, 0, "rank 0"), "main", [&world, log] {
      world.sleep(200);
      CHECK(log->text == "-abc");
    });
  });
}

TEST_CASE("a wake that comes before the block is not lost") {
  test::run_world(two_nodes(), [](World& world) {
    auto& process = world.add_process(0, 0, "rank 0");
    auto& sleeper = world.spawn(process, "sleeper", [&world] {
      world.yield();
      world.yield();
      world.block({.what = "test"});
      CHECK(world.now() == 0);
    });
    world.spawn(process, "waker", [&world, &sleeper] { world.wake(sleeper); });
  });
}

TEST_CASE("block_until answers which came first") {
  test::run_world(two_nodes(), [](World& world) {
    auto& process = world.add_process(0, 0, "rank 0");
    auto& sleeper = world.spawn(process, "sleeper", [&world] {
      CHECK(world.block_until(1000, {.what = "test"}));
      CHECK(world.now() == 500);
      CHECK_FALSE(world.block_until(1000, {.what = "test"}));
      CHECK(world.now() == 1000);
      CHECK_FALSE(world.block_until(700, {.what = "test"}));  // already past
      CHECK(world.now() == 1000);
    });
    world.spawn(process, "waker", [&world, &sleeper] {
      world.sleep(500);
      world.wake(sleeper);
    });
  });
}

TEST_CASE("join waits for the end, and returns at once after it") {
  test::run_world(two_nodes(), [](World& world) {
    auto& process = world.add_process(0, 0, "rank 0");
    world.spawn(process, "main", [&world, &process] {
      auto& child = world.spawn(process, "child", [&world] { world.sleep(777); });
      child.join();
      CHECK(world.now() == 777);
      child.join();
      CHECK(child.ended());
    });
  });
}

TEST_CASE("a polling thread wakes at the very time of the event it polls for") {
  test::run_world(two_nodes(), [](World& world) {
    auto& process = world.add_process(0, 0, "rank 0");
    world.at(123'456, 0, signal_process, &process, 0);
    world.spawn(process, "main", [&world, &process] {
      int looks = 0;
      while (process.epoch == 0) {  // two things are polled in turn
        world.spin({"thing", ++looks % 2U}, {.what = "poll"});
      }
      CHECK(world.now() == 123'456);
      CHECK(looks < 8);
    });
  });
}

TEST_CASE("work that was ready before is found without waiting: a whole circle is looked at first") {
  test::run_world(two_nodes(), [](World& world) {
    world.spawn(world.add_process(0, 0, "rank 0"), "main", [&world] {
      for (const std::uint64_t number : {0, 1, 2, 3, 4})
        world.spin({"thing", number}, {.what = "poll"});  // four empty, the fifth has work
      CHECK(world.now() == 0);
      world.note_activity();
      for (const std::uint64_t number : {0, 1, 2, 3, 4}) world.spin({"thing", number}, {.what = "poll"});
      CHECK(world.now() == 0);
    });
  });
}

TEST_CASE("a thing that is looked at only once does not keep the others from waiting") {
  test::run_world(two_nodes(), [](World& world) {
    auto& process = world.add_process(0, 0, "rank 0");
    world.at(123'456, 0, signal_process, &process, 0);
    world.spawn(process, "main", [&world, &process] {
      int looks = 0;
      world.spin({"thing", 0}, {.what = "once"});
      while (process.epoch == 0) world.spin({"thing", 1 + ++looks % 2U}, {.what = "poll"});
      CHECK(world.now() == 123'456);
      CHECK(looks < 12);
    });
  });
}

TEST_CASE("a thing that is looked at twice in a row does not close the circle before the others were looked at") {
  test::run_world(two_nodes(), [](World& world) {
    world.spawn(world.add_process(0, 0, "rank 0"), "main", [&world] {
      const auto look_at_all = [&] {
        for (const std::uint64_t number : {0, 1, 2}) world.spin({"thing", number}, {.what = "poll"});
      };
      look_at_all();
      look_at_all();  // closes a circle of three, and waits
      const Picoseconds before = world.now();
      CHECK(before > 0);
      world.note_activity();
      world.spin({"thing", 0}, {.what = "poll"});
      world.spin({"thing", 0}, {.what = "poll"});
      world.spin({"thing", 1}, {.what = "poll"});
      CHECK(world.now() == before);
    });
  });
}

TEST_CASE("a deadlock names every waiter and what it waits for") {
  const auto result = test::run_world(
      two_nodes(),
      [](World& world) {
        for (int rank = 0; rank < 2; ++rank) {
          world.spawn(world.add_process(rank, rank, "rank " + std::to_string(rank)), "main", [&world] {
            world.sleep(5'000);
            world.block({.what = "recv", .object = 7, .describe = [](std::uint64_t fd) {
                           return "descriptor " + std::to_string(fd);
                         }});
          });
        }
      },
      true);
  CHECK(result.outcome == OutcomeKind::kDeadlock);
  CHECK(result.waiters ==
        "rank 0 thread main: waits in recv for descriptor 7 since 5 ns\n"
        "rank 1 thread main: waits in recv for descriptor 7 since 5 ns\n");
}

TEST_CASE("an endless poll becomes a stall, with its name") {
  auto options = two_nodes();
  options.stall_limit_ps = kPicosecondsPerSecond;
  const auto result = test::run_world(
      options,
      [](World& world) {
        world.spawn(world.add_process(0, 0, "rank 0"), "main", [&world] {
          for (;;) world.spin({"thing"}, {.what = "ibv_poll_cq"});
        });
      },
      true);
  CHECK(result.outcome == OutcomeKind::kStall);
  CHECK(result.waiters.find("ibv_poll_cq") != std::string::npos);
}

TEST_CASE("the time limit ends a run that would go on") {
  auto options = two_nodes();
  options.time_limit_ps = 1'000'000;
  const auto result = test::run_world(
      options,
      [](World& world) {
        world.spawn(world.add_process(0, 0, "rank 0"), "main", [&world] {
          for (;;) {
            world.sleep(1000);
            world.progress();
          }
        });
      },
      true);
  CHECK(result.outcome == OutcomeKind::kTimeLimit);
}

TEST_CASE("daemons do not keep a run alive") {
  test::run_world(two_nodes(), [](World& world) {
    auto& process = world.add_process(0, 0, "rank 0");
    world.spawn(
        process, "daemon", [&world] { world.block({.what = "for ever"}); }, true);
    world.spawn(process, "main", [&world] { world.sleep(10); });
  });
}

TEST_CASE("threads interleave the same way as fibers and under every context factory") {
  std::string first;
  for (const char* factory : {"", "raw", "ucontext", "boost", "thread"}) {
    auto options = two_nodes();
    options.contexts = factory;
    const auto result = test::run_world(options, [](World& world) {
      auto* log = new Log;
      for (int rank = 0; rank < 2; ++rank) {
        auto& process = world.add_process(rank, rank, "rank");
        for (int thread = 0; thread < 3; ++thread) {
          world.spawn(process, "t", [&world, log, rank, thread] {
            for (int step = 0; step < 20; ++step) {
              log->text += static_cast<char>('a' + 3 * rank + thread);
              world.sleep(100 * (1 + (step * (thread + 1)) % 3));
            }
            if (world.now() > 3'500 && log->text.size() == 120) test::report(log->text);
          });
        }
      }
    });
    CHECK(result.value.size() >= 120);
    if (first.empty()) first = result.value;
    CHECK_MESSAGE(result.value == first, factory);
  }
}

TEST_CASE("threads that start, wake and yield to each other at one instant take turns as SimGrid's actors would") {
  std::string first;
  for (const char* factory : {"raw", "", "thread"}) {
    auto options = two_nodes();
    options.contexts = factory;
    const auto result = test::run_world(options, [](World& world) {
      auto* log = new Log;
      auto& process = world.add_process(0, 0, "rank");
      const auto child = [&world, log](char name) {
        return [&world, log, name] {
          for (int step = 0; step < 3; ++step) {
            log->text += name;
            world.yield();
          }
        };
      };
      auto& sleeper = world.spawn(process, "sleeper", [&world, log] {
        world.block({.what = "test"});
        log->text += 's';
      });
      for (const char name : {'a', 'b'}) {
        world.spawn(process, "parent", [&world, &process, &sleeper, log, child, name] {
          log->text += name;
          auto& made = world.spawn(process, "child", child(static_cast<char>(name - 'a' + 'x')));
          log->text += name;
          if (name == 'a') world.wake(sleeper);
          world.yield();
          log->text += name;
          made.join();
          log->text += name;
          if (log->text.size() == 15) test::report(log->text);
        });
      }
    });
    CHECK_MESSAGE(result.value.size() == 15, result.value);
    if (first.empty()) first = result.value;
    CHECK_MESSAGE(result.value == first, factory);
  }
}

TEST_CASE("a fiber's stack is used again when its thread has ended") {
  if (!sim::kFibers) return;
  const auto result = test::run_world(two_nodes(), [](World& world) {
    auto& process = world.add_process(0, 0, "rank");
    world.spawn(process, "main", [&world, &process] {
      std::set<const void*> places;
      for (int each = 0; each < 100; ++each) {
        const auto body = [&places] {
          const int here = 0;
          places.insert(&here);
        };
        world.spawn(process, "short", body).join();
      }
      test::report(std::to_string(places.size()));
    });
  });
  CHECK(result.value == "1");
}

TEST_CASE(
    "a thread for whose stack there is no memory has not begun: its starter gets an error, and no thread waits for "
    "it") {
  if (!sim::kFibers) return;
  constexpr std::uint32_t kStackBytes = 1U << 28U;
  auto options = two_nodes();
  options.stack_bytes = kStackBytes;
  test::run_world(options, [](World& world) {
    auto& process = world.add_process(0, 0, "rank 0");
    world.spawn(process, "main", [&world, &process] {
      bool told = false;
      try {
        const test::NoMemoryLeft limit(kStackBytes / 2);
        world.spawn(process, "child", [] {});
      } catch (const std::system_error&) {
        told = true;
      }
      CHECK(told);
      world.spawn(process, "child", [&world] { world.sleep(10); }).join();
      CHECK(world.now() == 10);
    });
  });
}

TEST_CASE("who runs on in the instant in which its node is killed counts once, and so does whom it starts") {
  for (const char* factory : {"", "raw"}) {
    for (const bool starts_another : {false, true}) {
      auto options = two_nodes();
      options.contexts = factory;
      const auto result = test::run_world(options, [starts_another](World& world) {
        auto& victim = world.add_process(0, 0, "rank 0");
        world.spawn(victim, "main", [&world, &victim, starts_another] {
          world.sleep(1000);
          if (starts_another) world.spawn(victim, "child", [&world] { world.block({.what = "test"}); });
        });
        world.at(1000, 1, kill_first_node, nullptr, 0);  // behind the timer that wakes it, and before it runs
        world.spawn(world.add_process(1, 1, "rank 1"), "main", [&world] {
          world.sleep(5000);
          test::report("the other one has ended");
        });
      });
      CHECK(result.value == "the other one has ended");
    }
  }
}

// A thread that wakes another goes on first: it may still be in the middle of what the other waits for.
TEST_CASE("a woken thread runs after the thread that woke it has blocked, on both fabrics") {
  for (const sim::FabricKind fabric : {sim::FabricKind::kChunk, sim::FabricKind::kFluid}) {
    sim::WorldOptions options = two_nodes();
    options.fabric = fabric;
    test::run_world(options, [](World& world) {
      auto& process = world.add_process(0, 0, "rank 0");
      auto* order = new std::string;
      auto& sleeper = world.spawn(process, "sleeper", [&world, order] {
        world.block({.what = "test"});
        *order += "sleeper ";
      });
      world.spawn(process, "waker", [&world, &sleeper, order] {
        world.sleep(10);
        world.wake(sleeper);
        *order += "waker ";
        world.sleep(10);
        CHECK(*order == "waker sleeper ");
      });
    });
  }
}

}  // namespace world_test

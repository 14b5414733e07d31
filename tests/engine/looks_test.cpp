// Looks at memory that are left out where nothing else happens (World::look_again).
#include "sim/engine/looks.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/support/run_world.h"

namespace looks_test {

using namespace meshbed;
using sim::World;

namespace {

constexpr Picoseconds kPeriod = 1000;

/// Looks until `until_ps`, and notes when.
struct Looker {
  Picoseconds until_ps;
  Picoseconds period_ps = kPeriod;
  std::vector<Picoseconds> at_ps{};

  static void look(void* self, std::uint64_t) {
    auto& looker = *static_cast<Looker*>(self);
    World& world = World::get();
    looker.at_ps.push_back(world.now());
    if (world.now() >= looker.until_ps) return;
    world.look_again(world.now() + kPeriod, looker.period_ps, 0, look, self, 0);
  }
};

void nothing(void*, std::uint64_t) {}

/// Lookers that begin at 0, and a thread that ends at `end_ps` and says what they have seen.
void run_lookers(World& world, const std::vector<Looker*>& lookers, Picoseconds end_ps, void (*check)()) {
  for (Looker* looker : lookers) world.at(0, 0, Looker::look, looker, 0);
  world.spawn(world.add_process(0, 0, "rank 0"), "main", [&world, end_ps, check] {
    world.sleep(end_ps);
    check();
  });
}

}  // namespace

TEST_CASE("looks before the next event are left out, and the one after it is where it would have been") {
  for (const auto fabric : {sim::FabricKind::kChunk, sim::FabricKind::kFluid}) {
    test::run_world({.cluster = test::ring_cluster(2), .fabric = fabric}, [](World& world) {
      static Looker looker{.until_ps = 102'000};
      for (const Picoseconds when : {100'500, 101'000, 200'500}) world.at(when, 0, nothing, nullptr, 0);
      run_lookers(world, {&looker}, 300'000, [] {
        CHECK(looker.at_ps == std::vector<Picoseconds>{0, 101'000, 201'000});
      });
    });
  }
}

TEST_CASE("so many are left out in a row and no more, and with period 0 none") {
  test::run_world({.cluster = test::ring_cluster(2)}, [](World& world) {
    static constexpr Picoseconds kStride = (sim::Looks::kMostLeftOut + 1) * kPeriod;
    static Looker looker{.until_ps = 2 * kStride}, patient{.until_ps = 2 * kStride, .period_ps = 0};
    run_lookers(world, {&looker, &patient}, 10 * kStride, [] {
      CHECK(looker.at_ps == std::vector<Picoseconds>{0, kStride, 2 * kStride});
      CHECK(patient.at_ps.size() == 2 * kStride / kPeriod + 1);
    });
  });
}

TEST_CASE("looks that are all that is due are left out after a second, and the run has soon stalled") {
  const auto result = test::run_world(
      {.cluster = test::ring_cluster(2)},
      [](World& world) {
        struct Millisecond {
          static void look(void*, std::uint64_t) {
            test::report("x");
            World& now = World::get();
            constexpr Picoseconds kMs = kPicosecondsPerMillisecond;
            now.look_again(now.now() + kMs, kMs, 0, look, nullptr, 0);
          }
        };
        world.at(0, 0, Millisecond::look, nullptr, 0);
        world.spawn(world.add_process(0, 0, "rank 0"), "main", [&world] { world.block({.what = "test"}); });
      },
      true);
  CHECK(result.outcome == sim::OutcomeKind::kStall);
  CHECK(result.value.size() > 1000);
  CHECK(result.value.size() < 1100);
}

TEST_CASE("none is left out earlier where nothing else is due") {
  test::run_world({.cluster = test::ring_cluster(2)}, [](World& world) {
    static int looks = 0;
    world.spawn(world.add_process(0, 0, "rank 0"), "main", [&world] {
      struct Last {
        static void look(void* waiting, std::uint64_t) {
          if (++looks == 1000) return World::get().wake(*static_cast<sim::Thread*>(waiting));
          World::get().look_again(World::get().now() + kPeriod, kPeriod, 0, look, waiting, 0);
        }
      };
      Last::look(World::current(), 0);
      world.block({.what = "test"});
      CHECK(world.now() == 999 * kPeriod);
    });
  });
}

TEST_CASE("events and turns are what happens, looks are not") {
  test::run_world({.cluster = test::ring_cluster(2)}, [](World& world) {
    static Looker looker{.until_ps = 20 * kPeriod, .period_ps = 0};
    world.spawn(world.add_process(0, 0, "rank 0"), "main", [&world] {
      Looker::look(&looker, 0);
      world.at(10 * kPeriod + 1, 0, nothing, nullptr, 0);
      static std::vector<std::uint64_t> happened;
      for (const Picoseconds when : {2, 9, 11, 19}) {
        // By a look of its own, which is none of what it counts.
        world.look_again(
            when * kPeriod + 2, 0, 0, [](void*, std::uint64_t) { happened.push_back(World::get().happened()); },
            nullptr, 0);
      }
      world.sleep(30 * kPeriod);
      REQUIRE(happened.size() == 4);
      CHECK(happened[1] == happened[0]);
      CHECK(happened[2] == happened[1] + 1);
      CHECK(happened[3] == happened[2]);
    });
  });
}

}  // namespace looks_test

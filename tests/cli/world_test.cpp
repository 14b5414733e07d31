// What each world says of itself, in place of comparisons of its name.
#include "testbed/world/world.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <stdexcept>

#include "cli/common/run_options.h"
#include "testbed/world/metal.h"

namespace world_test {

using namespace meshbed::testbed;

namespace {

/// Set as long as it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

RunOptions options_of(WorldKind world) {
  RunOptions options;
  options.scenario_path = MESHBED_SOURCE_DIR "/scenarios/pair.toml";
  options.world = world;
  return options;
}

}  // namespace

TEST_CASE("the simulated world has virtual time, every rank, and its own faults") {
  const RunWorld& world = run_world(WorldKind::kSimulated);
  const WorldFacts facts = world.facts();
  CHECK(std::string(facts.name) == "sim");
  CHECK(facts.virtual_time);
  CHECK((facts.faults_by == FaultsBy::kSimulator));
  CHECK(world.ranks_here(3).first == 0);
  CHECK(world.ranks_here(3).count == 3);
  CHECK(world.speaks());
  CHECK_FALSE(world.boots_nodes());
}

TEST_CASE("the emulated world boots nodes, which have all ranks, and its host carries faults out") {
  const RunWorld& world = run_world(WorldKind::kEmulated);
  const WorldFacts facts = world.facts();
  CHECK(std::string(facts.name) == "emu");
  CHECK_FALSE(facts.virtual_time);
  CHECK((facts.faults_by == FaultsBy::kEmulator));
  CHECK(world.ranks_here(3).count == 0);
  CHECK(world.speaks());
  CHECK(world.boots_nodes());
}

TEST_CASE("on metal this process is one rank, and faults are left to hands") {
  const RunWorld& world = run_world(WorldKind::kMetal);
  const WorldFacts facts = world.facts();
  CHECK(std::string(facts.name) == "metal");
  CHECK_FALSE(facts.virtual_time);
  CHECK((facts.faults_by == FaultsBy::kHands));
  CHECK_FALSE(world.boots_nodes());

  const Variable ranks("WORLD_SIZE", "3"), address("MASTER_ADDR", "10.0.0.1");
  {
    const Variable rank("RANK", "2");
    CHECK(world.ranks_here(3).first == 2);
    CHECK(world.ranks_here(3).count == 1);
    CHECK_FALSE(world.speaks());
  }
  const Variable rank("RANK", "0");
  CHECK(world.speaks());
}

TEST_CASE("a rank in an emulated node is on metal, with the emulated world's results and faults") {
  const Variable name(kWorldNameVariable, "emu");
  const WorldFacts facts = run_world(WorldKind::kMetal).facts();
  CHECK(std::string(facts.name) == "emu");
  CHECK_FALSE(facts.virtual_time);
  CHECK((facts.faults_by == FaultsBy::kEmulator));
}

TEST_CASE("a world that there is not is refused with those that there are") {
  CHECK_THROWS_WITH_AS(parse_world("moon"), "--world moon: there is no such world; accepted: sim, emu, metal",
                       std::runtime_error);
  CHECK_THROWS_WITH_AS(parse_world(""), "--world : there is no such world; accepted: sim, emu, metal",
                       std::runtime_error);
  CHECK(world_names() == std::vector<std::string>{"sim", "emu", "metal"});
  CHECK(world_names(/*real_only=*/true) == std::vector<std::string>{"emu", "metal"});
}

TEST_CASE("what is for virtual time alone is refused where time is real, and the other way round") {
  for (const WorldFacts& each : kWorlds) {
    RunOptions limited = options_of(each.kind), shared = options_of(each.kind);
    limited.time_limit_text = "7";
    shared.fabric = "fluid";
    if (each.virtual_time) {
      CHECK_THROWS_WITH_AS(refuse_simulated_time_limit(limited),
                           "--time-limit is for --world emu and metal; of simulated time, say --set limits.time=7s",
                           std::runtime_error);
      CHECK(scenario_for(shared).fabric == "fluid");
    } else {
      CHECK_NOTHROW(refuse_simulated_time_limit(limited));
      CHECK_THROWS_AS(scenario_for(shared), std::runtime_error);
    }
  }
  CHECK((RunOptions{}.world == WorldKind::kSimulated));
}

TEST_CASE("a profile of the file's is virtual time's alone: where time is real, software takes what it takes") {
  RunOptions options = options_of(WorldKind::kSimulated);
  options.overrides = {"models.profile=spark-ring-sircl"};
  CHECK(scenario_for(options).software.machine != nullptr);
  for (const WorldKind world : {WorldKind::kEmulated, WorldKind::kMetal}) {
    options.world = world;
    const Scenario scenario = scenario_for(options);
    CHECK(scenario.software.machine == nullptr);
    CHECK(scenario.software.profile == kIdealProfile);
  }
}

TEST_CASE("a rank in a node gets the world emu, and no other: the name becomes a folder of the results") {
  for (const char* wrong : {"sim", "../../evil", ""}) {
    const Variable name(kWorldNameVariable, wrong);
    CHECK_THROWS_WITH_AS(run_world(WorldKind::kMetal).facts(), doctest::Contains("MESHBED_WORLD_NAME="),
                         std::runtime_error);
  }
}

}  // namespace world_test

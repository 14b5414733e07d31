#include "testbed/world/world.h"

#include <array>
#include <utility>

#include "testbed/base/checked_text.h"
#include "testbed/base/environment.h"
#include "testbed/world/metal.h"
#include "testbed/world/simulate.h"

namespace meshbed::testbed {
namespace {

class SimulatedWorld final : public RunWorld {
 public:
  WorldFacts facts() const override {
    return {.name = kSimulatedWorld, .virtual_time = true, .faults_by = FaultsBy::kSimulator};
  }
  RankRange ranks_here(int ranks) const override { return {0, ranks}; }

  WorldOutcome run(const Scenario& scenario, const WorldProgram& program) const override {
    WorldOutcome outcome;
    outcome.result.world = facts();
    outcome.result.simulation =
        simulate(scenario, {.files = built_files(), .contexts = program.contexts}, *program.recorder, program.run_rank);
    return outcome;
  }
};

class EmulatedWorld final : public RunWorld {
 public:
  WorldFacts facts() const override {
    return {.name = kEmulatedWorld, .virtual_time = false, .faults_by = FaultsBy::kEmulator};
  }
  RankRange ranks_here(int) const override { return {0, 0}; }
  bool boots_nodes() const override { return true; }

  WorldOutcome run(const Scenario& scenario, const WorldProgram& program) const override {
    EmulateOptions nodes = program.nodes;
    nodes.time_limit_s = program.time_limit_s;
    WorldOutcome outcome{.result = {}, .emulation = emulate(scenario, nodes)};
    const Emulation& emulation = outcome.emulation;
    outcome.result.world = facts();
    outcome.result.simulation.errors = emulation.errors;
    outcome.result.simulation.faults = emulation.faults;
    if (!emulation.waiters.empty()) {
      outcome.result.simulation.outcome = {sim::OutcomeKind::kDeadlock, emulation.waiters};
    }
    return outcome;
  }
};

class MetalWorld final : public RunWorld {
 public:
  /// A rank in an emulated node is one on metal, but its results are the emulated world's, and so are its faults.
  WorldFacts facts() const override {
    const std::string name = from_environment(kWorldNameVariable).value_or(kMetalWorld);
    if (name != kMetalWorld && name != kEmulatedWorld) {
      throw std::runtime_error(std::string(kWorldNameVariable) + "=" + name +
                               ": it is set in emulated nodes, to emu; elsewhere leave it out");
    }
    return {
        .name = name, .virtual_time = false, .faults_by = name == kMetalWorld ? FaultsBy::kHands : FaultsBy::kEmulator};
  }
  RankRange ranks_here(int) const override { return {metal_place(from_environment).rank, 1}; }

  WorldOutcome run(const Scenario& scenario, const WorldProgram& program) const override {
    WorldOutcome outcome{.result = run_metal(scenario, program), .emulation = {}};
    outcome.result.world = facts();
    return outcome;
  }
};

const auto& all_worlds() {
  static const SimulatedWorld simulated;
  static const EmulatedWorld emulated;
  static const MetalWorld metal;
  static const std::array<std::pair<const char*, const RunWorld*>, 3> all{
      {{kSimulatedWorld, &simulated}, {kEmulatedWorld, &emulated}, {kMetalWorld, &metal}}};
  return all;
}

}  // namespace

std::vector<std::string> world_names(bool real_only) {
  std::vector<std::string> names;
  for (const auto& [name, world] : all_worlds()) {
    if (!real_only || !world->facts().virtual_time) names.emplace_back(name);
  }
  return names;
}

const RunWorld& run_world(const std::string& name) {
  require_choice("--world", "world", name, world_names());
  const RunWorld* found = nullptr;
  for (const auto& [each, world] : all_worlds()) {
    if (each == name) found = world;
  }
  return *found;
}

}  // namespace meshbed::testbed

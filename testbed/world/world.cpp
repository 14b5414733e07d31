#include "testbed/world/world.h"

#include <algorithm>
#include <stdexcept>

#include "testbed/base/checked_text.h"
#include "testbed/base/environment.h"
#include "testbed/world/metal.h"
#include "testbed/world/simulate.h"

namespace meshbed::testbed {
namespace {

class SimulatedWorld final : public RunWorld {
 public:
  WorldFacts facts() const override { return info_of(WorldKind::kSimulated); }
  RankRange ranks_here(int ranks) const override { return {0, ranks}; }

  WorldOutcome run(const Scenario& scenario, const WorldProgram& program) const override {
    WorldOutcome outcome;
    outcome.result.world = facts();
    outcome.result.simulation = simulate(
        scenario, {.files = built_files(), .contexts = program.contexts, .for_time_line = program.for_time_line},
        *program.recorder, program.run_rank);
    return outcome;
  }
};

class EmulatedWorld final : public RunWorld {
 public:
  WorldFacts facts() const override { return info_of(WorldKind::kEmulated); }
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
    const std::string name = from_environment(kWorldNameVariable).value_or(name_of(WorldKind::kMetal));
    for (const WorldKind kind : {WorldKind::kMetal, WorldKind::kEmulated}) {
      if (name == name_of(kind)) return info_of(kind);
    }
    throw std::runtime_error(std::string(kWorldNameVariable) + "=" + name +
                             ": it is set in emulated nodes, to emu; elsewhere leave it out");
  }
  RankRange ranks_here(int) const override { return {metal_place(from_environment).rank, 1}; }

  WorldOutcome run(const Scenario& scenario, const WorldProgram& program) const override {
    WorldOutcome outcome{.result = run_metal(scenario, program), .emulation = {}};
    outcome.result.world = facts();
    return outcome;
  }
};

}  // namespace

std::vector<std::string> world_names(bool real_only) {
  std::vector<std::string> names;
  for (const WorldFacts& each : kWorlds) {
    if (!real_only || !each.virtual_time) names.emplace_back(each.name);
  }
  return names;
}

WorldKind parse_world(const std::string& name) {
  require_choice("--world", "world", name, world_names());
  const auto found = std::find_if(kWorlds.begin(), kWorlds.end(), [&](const auto& each) { return each.name == name; });
  return found->kind;
}

const RunWorld& run_world(WorldKind kind) {
  static const SimulatedWorld simulated;
  static const EmulatedWorld emulated;
  static const MetalWorld metal;
  switch (kind) {
    case WorldKind::kEmulated:
      return emulated;
    case WorldKind::kMetal:
      return metal;
    case WorldKind::kSimulated:
      break;
  }
  return simulated;
}

}  // namespace meshbed::testbed

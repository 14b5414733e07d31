#pragma once
// WorldFacts: the properties of a world that its results depend on, from one list (worlds.def). Code that reads results
// uses these properties, never the world's name. A new world is a line there, and a class in testbed/world/world.cpp.

#include <array>
#include <cstdint>

namespace meshbed::testbed {

enum class WorldKind : std::uint8_t {
#define MESHBED_WORLD(constant, name, virtual_time, faults_by) constant,
#include "testbed/scenario/kinds/worlds.def"
#undef MESHBED_WORLD
};

/// What carries out a scenario's faults.
enum class FaultsBy : std::uint8_t {
  kSimulator,  // the run itself, which reports them
  kEmulator,   // the host of its nodes, which reports them in the run's place
  kHands,      // people: no code does
};

struct WorldFacts {
  WorldKind kind = WorldKind::kSimulated;
  const char* name = "";  // of --world and in results: "sim"
  /// Time and network are models. Times repeat exactly, so they are proven and held against promises; [limits] ends the
  /// run, and --fabric and --contexts say how it is computed. Elsewhere they are the machines' own.
  bool virtual_time = true;
  FaultsBy faults_by = FaultsBy::kSimulator;
};

/// In the order in which they are listed to users.
inline constexpr std::array kWorlds{
#define MESHBED_WORLD(constant, name, virtual_time, faults_by) \
  WorldFacts{WorldKind::constant, name, virtual_time, FaultsBy::faults_by},
#include "testbed/scenario/kinds/worlds.def"
#undef MESHBED_WORLD
};

constexpr const WorldFacts& info_of(WorldKind kind) { return kWorlds[static_cast<std::uint8_t>(kind)]; }
constexpr const char* name_of(WorldKind kind) { return info_of(kind).name; }

}  // namespace meshbed::testbed

#pragma once
// WorldFacts: what a run's result has to know of the world that it comes from. A world fills them in
// (testbed/world/world.h); code that reads results asks these, never the world's name.

#include <string>

namespace meshbed::testbed {

/// Who carries out a scenario's faults.
enum class FaultsBy {
  kSimulator,  // the run itself, which tells of them
  kEmulator,   // the host of its nodes, which tells of them in the run's place
  kHands,      // people: nobody here does
};

struct WorldFacts {
  std::string name;  // in results: "sim"
  /// Time and network are models. Times repeat exactly, so they are proven and held against promises; [limits] ends the
  /// run, and --fabric and --contexts say how it is computed. Elsewhere they are the machines' own.
  bool virtual_time = true;
  FaultsBy faults_by = FaultsBy::kSimulator;
};

}  // namespace meshbed::testbed

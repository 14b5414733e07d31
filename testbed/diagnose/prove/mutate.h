#pragma once
// Mutations: how each reproducible cause is put into a scenario, as --set and --fault would. Pure functions; any
// thread.

#include <string>
#include <utility>
#include <vector>

#include "testbed/diagnose/causes/causes.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed::diagnose {

struct Mutation {
  CauseCode cause;
  std::string place;                                         // "cable node0-node1", "node1/rocep1s0f0", "rank 1"
  std::vector<std::pair<std::string, std::string>> changes;  // keys and values as --set takes them
  /// As the command takes them: "--set KEY=VALUE", "--fault KIND,target=...".
  std::vector<std::string> texts() const;
};

/// The places where the scenario can have the cause, `most` at most; empty: it has none (a cluster with one cable
/// cannot have two plugs swapped), or a run does not show the cause. Faults begin in the second iteration of a
/// collective.
std::vector<Mutation> mutations(const Scenario& scenario, CauseCode cause, std::size_t most);

}  // namespace meshbed::testbed::diagnose

#pragma once
// Show: a run of a scenario with a fault, and what it leads to. For prove() and the self-check alone: it knows
// libmeshbed's headers.

#include <string>
#include <vector>

#include "meshbed/scenario.h"
#include "testbed/diagnose/diagnose.h"
#include "testbed/diagnose/prove/mutate.h"

namespace meshbed::testbed::diagnose {

/// What one run wrote.
struct Shown {
  std::string log;      // its ranks' output and errors, as a job's standard error has them
  std::string summary;  // JSON; empty: the reader refused the scenario
  std::string refused;  // why; empty: it ran
  std::string digest;
};
/// Throws meshbed::RunError where it cannot take place.
Shown show(const meshbed::Scenario& scenario);

/// The first cause that lint's findings and the addresses, rates and settings of the scenario lead to, without a run:
/// "none", or its code.
std::string cause_in_state(const meshbed::Scenario& base, const Mutation& mutation);

/// From the log alone, from the results alone, or from both.
enum class From { kLog, kResults, kBoth };
Diagnosis diagnose_run(const Shown& shown, From from);

/// A scenario with the mutation, as it is to be run: its promises are left out, and its first error is expected. Throws
/// meshbed::InvalidScenario where the reader refuses it.
meshbed::Scenario mutated(const meshbed::Scenario& base, const Mutation& mutation);

/// A pair with two cables, a ring of four and four nodes on two switches: for proofs without a scenario, and for the
/// self-check.
std::vector<meshbed::Scenario> built_in_scenarios();

}  // namespace meshbed::testbed::diagnose

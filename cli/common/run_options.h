#pragma once
// RunOptions: the common options of all commands that run a scenario, and the resulting scenario.

#include <boost/program_options.hpp>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "testbed/scenario/scenario.h"
#include "testbed/world/world.h"

namespace meshbed::testbed {

/// As require_choice() (testbed/base/checked_text.h), of "--fabric".
void require_fabric(const std::string& value);

/// What run and perf have in common.
struct RunOptions {
  std::string scenario_path;
  std::vector<std::string> overrides;
  std::vector<std::string> faults;  // as --fault takes them; behind the scenario's own
  std::optional<std::uint64_t> seed;
  std::string fabric;   // empty: the scenario's
  std::string profile;  // likewise
  WorldKind world = WorldKind::kSimulated;
  std::string contexts;
  std::string time_limit_text = "300";
  bool json = false;
};
/// --set --fault --seed --fabric --profile --world --contexts --time-limit --json
void add_run_options(boost::program_options::options_description& options, RunOptions& values);
/// --time-limit in seconds; throws where it is none.
double time_limit_of(const RunOptions& options);
/// Throws std::runtime_error where it was given to a world of virtual time, whose limit is the scenario's.
void refuse_simulated_time_limit(const RunOptions& options);
/// What was set that the scenario does not say, a text each: its overrides, "fault=...", "seed=7".
std::vector<std::string> settings_of(const RunOptions& options);
/// Those that change what runs, in the words of a rank's command in an emulated node: "--world metal --seed 7
/// --time-limit 300".
std::vector<std::string> metal_words(const RunOptions& options);
/// Reads the scenario and applies the options to it; throws ScenarioError, or std::runtime_error for a world or fabric
/// that there is not.
Scenario scenario_for(const RunOptions& options);
/// Prints the scenario's findings. Throws ScenarioError with the errors among them: the run would fail. On real
/// machines errors are printed as well, and refuse nothing: the machines may be other ones than the scenario describes.
void report_findings(const Scenario& scenario, const RunWorld& world, std::ostream& err);

}  // namespace meshbed::testbed

#pragma once
// Command: what every subcommand looks like, and the options that several of them share.
//
// A command returns its exit status (cli/result.h). What the user got wrong it throws as std::exception: main prints
// one line and ends with status 2.

#include <boost/program_options.hpp>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "cli/scenario.h"

namespace meshbed::cli {

using Arguments = std::vector<std::string>;
using CommandFunction = int (*)(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// Adds --help, which a command answers by printing `usage` and the options.
void add_help(boost::program_options::options_description& options);

/// Parses `arguments`; nothing where --help was asked for (it is then printed to `out`). Throws on unknown options,
/// missing and surplus arguments.
std::optional<boost::program_options::variables_map> parse_arguments(
    const Arguments& arguments, const std::string& usage, const boost::program_options::options_description& options,
    const boost::program_options::positional_options_description& positional, std::ostream& out);

/// What run and perf have in common.
struct RunOptions {
  std::string scenario_path;
  std::vector<std::string> overrides;
  std::optional<std::uint64_t> seed;
  std::string fabric;  // empty: the scenario's
  std::string world = "sim";
  std::string contexts;
  bool json = false;
};
/// --set --seed --fabric --world --contexts --json
void add_run_options(boost::program_options::options_description& options, RunOptions& values);
/// Reads the scenario and applies the options to it; throws ScenarioError, or std::runtime_error for a world or fabric
/// that there is not.
Scenario scenario_for(const RunOptions& options);

}  // namespace meshbed::cli

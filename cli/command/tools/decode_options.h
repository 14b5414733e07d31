#pragma once
// models --decode: its options in addition to --layers, --calls, --bytes and --ranks.

#include <iosfwd>
#include <string>
#include <vector>

#include "cli/command/commands.h"

namespace meshbed::testbed {

struct DecodeOptions {
  std::string measured, profile, topology, compute, overlap = "0", gpu = "GB10", total = "0", active = "0", bits = "4";
  std::string batch = "1", tensor, pipeline = "1", expert_ranks = "1", hidden, layers, calls, ranks;

  void describe(boost::program_options::options_description& options);
  /// Names of the options that need --decode, for Syntax::only_with.
  static std::vector<std::string> names();
  /// Whether a plan of one profile, or a measured file, was requested.
  bool is_plan() const { return !measured.empty() || !profile.empty(); }
  /// Prints the ratios of --measured, or the step of --profile. Throws std::runtime_error, with the option.
  void print(std::ostream& out) const;
};

}  // namespace meshbed::testbed

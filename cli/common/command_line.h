#pragma once
// Command: the common form of all subcommands, and the options that several of them share.
//
// A command returns its exit status (testbed/workload/result.h). It reports user errors by throwing std::exception:
// main prints one line and exits with status 2.

#include <boost/program_options.hpp>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "testbed/base/checked_text.h"  // for the values of options

namespace meshbed::testbed {

using Arguments = std::vector<std::string>;
using CommandFunction = int (*)(const Arguments& arguments, std::ostream& out, std::ostream& err);

/// What a command takes. `operands` are the words without a dash, in their order in `positions`; the others are
/// options.
struct Syntax {
  explicit Syntax(std::string usage_text, const std::string& options_title = "options")
      : usage(std::move(usage_text)), options(options_title) {}

  std::string usage;  // "run SCENARIO [options]"
  boost::program_options::options_description options;
  boost::program_options::options_description operands{"arguments"};
  boost::program_options::positional_options_description positions;

  /// `named` say nothing without one of `others`, or beside one of them: there they are refused, not ignored.
  void only_with(std::vector<std::string> others, const std::vector<std::string>& named) {
    for (const std::string& option : named) bonds.push_back({option, others, true});
  }
  void only_without(std::vector<std::string> others, const std::vector<std::string>& named) {
    for (const std::string& option : named) bonds.push_back({option, others, false});
  }
  struct Bond {
    std::string option;
    std::vector<std::string> others;
    bool with = true;
  };
  std::vector<Bond> bonds;
};

/// The words of a whole command line that are the command's own: those before `--` and, of `cuda run`, before the name
/// of the program.
Arguments own_words(const Arguments& words);

/// Parses `arguments`. False where --help was asked for: usage, operands and options are then printed to `out`. Throws
/// on unknown options (with the likely one), missing and surplus arguments, and options that would be ignored.
bool parse_arguments(const Arguments& arguments, const Syntax& syntax, std::ostream& out);

}  // namespace meshbed::testbed

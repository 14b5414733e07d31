#include "cli/command.h"

#include <ostream>
#include <stdexcept>

namespace meshbed::cli {

namespace po = boost::program_options;

void add_help(po::options_description& options) { options.add_options()("help,h", "print this text"); }

std::optional<po::variables_map> parse_arguments(const Arguments& arguments, const std::string& usage,
                                                 const po::options_description& options,
                                                 const po::positional_options_description& positional,
                                                 std::ostream& out) {
  // No guessing: an abbreviation that works today would break when an option is added.
  constexpr int kStyle = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  po::variables_map values;
  po::store(po::command_line_parser(arguments).options(options).positional(positional).style(kStyle).run(), values);
  if (values.count("help") > 0) {
    out << "usage: meshbed " << usage << "\n\n" << options;
    return std::nullopt;
  }
  po::notify(values);
  return values;
}

void add_run_options(po::options_description& options, RunOptions& values) {
  options.add_options()  //
      ("set", po::value(&values.overrides)->value_name("KEY=VALUE"),
       "override a key of the scenario; may be repeated")  //
      ("seed",
       po::value<std::uint64_t>()->value_name("N")->notifier([&values](std::uint64_t seed) { values.seed = seed; }),
       "seed of every random number; default: the scenario's")  //
      ("fabric", po::value(&values.fabric)->value_name("fluid|chunk"),
       "how the network is shared; default: the scenario's")                                        //
      ("world", po::value(&values.world)->value_name("sim")->default_value("sim"), "where to run")  //
      ("contexts", po::value(&values.contexts)->value_name("raw|ucontext|boost|thread"),
       "SimGrid's context factory")  //
      ("json", po::bool_switch(&values.json), "print the summary as JSON, and nothing else");
}

Scenario scenario_for(const RunOptions& options) {
  if (options.world != "sim") {
    throw std::runtime_error("no world \"" + options.world + "\": this version runs in sim (see meshbed doctor)");
  }
  if (!options.fabric.empty() && options.fabric != "fluid" && options.fabric != "chunk") {
    throw std::runtime_error("no fabric \"" + options.fabric + "\": fluid or chunk");
  }
  if (!options.contexts.empty() && options.contexts != "raw" && options.contexts != "ucontext" &&
      options.contexts != "boost" && options.contexts != "thread") {
    throw std::runtime_error("no context factory \"" + options.contexts + "\": raw, ucontext, boost or thread");
  }
  Scenario scenario = read_scenario(options.scenario_path, options.overrides);
  if (options.seed) scenario.seed = *options.seed;
  if (!options.fabric.empty()) scenario.fabric = options.fabric;
  return scenario;
}

}  // namespace meshbed::cli

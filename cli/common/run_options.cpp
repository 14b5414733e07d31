#include "cli/common/run_options.h"

#include <fmt/format.h>

#include <limits>
#include <ostream>
#include <stdexcept>

#include "cli/common/command_line.h"
#include "models/lan/trunks.h"
#include "testbed/scenario/findings/findings.h"
#include "testbed/scenario/override.h"

namespace meshbed::testbed {
namespace po = boost::program_options;

void add_run_options(po::options_description& options, RunOptions& values) {
  options.add_options()  //
      ("set", po::value(&values.overrides)->value_name("KEY=VALUE"),
       "override a key of the scenario; may be repeated")  //
      ("fault", po::value(&values.faults)->value_name("KIND,target=T,at=TIME[,...]"),
       "a fault more, in the keys of [[fault]], as in cable_down,target=node0-node1,at=2ms,duration=1ms; may be "
       "repeated")  //
      ("seed", po::value<std::string>()->value_name("N")->notifier([&values](const std::string& text) {
        values.seed = parse_count("--seed", text, 0, std::numeric_limits<std::uint64_t>::max());
      }),
       "the data and every random number descend from it; default: the scenario's")  //
      ("fabric", po::value(&values.fabric)->value_name("fluid|chunk"),
       "how the network is shared; default: the scenario's")  //
      ("profile", po::value(&values.profile)->value_name("NAME"),
       "what software costs, as models.profile; meshbed models lists them; default: the scenario's")  //
      ("world",
       po::value<std::string>()
           ->value_name("WORLD")
           ->default_value(name_of(values.world))
           ->notifier([&values](const std::string& text) { values.world = parse_world(text); }),
       "sim, emu or metal")  //
      ("contexts", po::value(&values.contexts)->value_name("raw|ucontext|boost|thread"),
       "SimGrid's context factory")  //
      ("time-limit", po::value(&values.time_limit_text)->value_name("SECONDS")->default_value(values.time_limit_text),
       "of a clock on the wall: the run is given up after this; run and perf in sim have [limits] time")  //
      ("json", po::bool_switch(&values.json), "print the summary as JSON, and nothing else");
}

void require_fabric(const std::string& value) { require_choice("--fabric", "fabric", value, {"fluid", "chunk"}); }

double time_limit_of(const RunOptions& options) {
  return static_cast<double>(parse_count("--time-limit", options.time_limit_text, 1, 1'000'000));
}

void refuse_simulated_time_limit(const RunOptions& options) {
  if (!run_world(options.world).facts().virtual_time || options.time_limit_text == RunOptions{}.time_limit_text) return;
  throw std::runtime_error("--time-limit is for --world emu and metal; of simulated time, say --set limits.time=" +
                           options.time_limit_text + "s");
}

std::vector<std::string> settings_of(const RunOptions& options) {
  std::vector<std::string> settings = options.overrides;
  for (const std::string& each : options.faults) settings.push_back("fault=" + each);
  if (options.seed) settings.push_back("seed=" + std::to_string(*options.seed));
  if (!options.fabric.empty()) settings.push_back("fabric=" + options.fabric);
  if (!options.profile.empty()) settings.push_back("profile=" + options.profile);
  return settings;
}

std::vector<std::string> metal_words(const RunOptions& options) {
  std::vector<std::string> words{"--world", name_of(WorldKind::kMetal), "--time-limit", options.time_limit_text};
  for (const std::string& each : options.overrides) words.insert(words.end(), {"--set", each});
  for (const std::string& each : options.faults) words.insert(words.end(), {"--fault", each});
  if (options.seed) words.insert(words.end(), {"--seed", std::to_string(*options.seed)});
  return words;
}

Scenario scenario_for(const RunOptions& options) {
  const bool virtual_time = run_world(options.world).facts().virtual_time;
  if (!virtual_time && !(options.fabric.empty() && options.contexts.empty())) {
    throw std::runtime_error(fmt::format(
        "--fabric and --contexts are the simulated world's; --world {} has a real network", name_of(options.world)));
  }
  if (!virtual_time && !options.profile.empty()) {
    throw std::runtime_error(
        fmt::format("--profile is the simulated world's; in --world {} software takes the time that it takes",
                    name_of(options.world)));
  }
  if (!options.fabric.empty()) require_fabric(options.fabric);
  if (!options.contexts.empty()) {
    require_choice("--contexts", "context factory", options.contexts, {"raw", "ucontext", "boost", "thread"});
  }
  std::vector<std::string> overrides = options.overrides;
  if (!options.profile.empty()) overrides.push_back("models.profile=" + options.profile);
  for (const std::string& each : options.faults) overrides.push_back(fault_override(each));
  Scenario scenario = read_scenario(options.scenario_path, overrides);
  if (!virtual_time) scenario.software = {};  // the file's profile is for virtual time alone, and other runs
  if (options.seed) scenario.seed = *options.seed;
  if (!options.fabric.empty()) scenario.fabric = options.fabric;
  if (scenario.fabric == "fluid" && models::has_boxes(scenario.cluster)) {
    throw std::runtime_error(
        "--fabric fluid has one way between two ports, and a switch of several boxes has one for each flow; say chunk");
  }
  return scenario;
}

void report_findings(const Scenario& scenario, const RunWorld& world, std::ostream& err) {
  const WorldFacts facts = world.facts();
  // A rank in an emulated node: its host has printed them.
  if (!facts.virtual_time && !world.boots_nodes() && facts.faults_by == FaultsBy::kEmulator) return;
  const std::vector<Finding> findings = findings_of(scenario);
  if (facts.virtual_time || world.boots_nodes()) refuse_errors(scenario, findings);
  for (const std::string& line : finding_lines(findings)) err << "meshbed: " << line << "\n";
}

}  // namespace meshbed::testbed

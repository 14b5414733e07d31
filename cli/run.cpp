#include "cli/run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <ostream>
#include <stdexcept>

#include "cli/expect.h"
#include "cli/report.h"
#include "cli/workload.h"

namespace meshbed::cli {
namespace {

namespace po = boost::program_options;

struct Options {
  RunOptions run;
  std::string results = "results";
  bool no_trace = false;
};

/// DIR/<scenario>/sim, made where it is missing; throws where nothing can be written there.
std::string make_results_folder(const std::string& results, const Scenario& scenario) {
  if (results.empty()) throw std::runtime_error("--results is empty; name a folder, as in --results results");
  const std::string folder = results + "/" + scenario.name + "/sim";
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (!problem && access(folder.c_str(), W_OK) != 0) problem.assign(errno, std::generic_category());
  if (problem) {
    throw std::runtime_error(fmt::format("--results {}: cannot write to {}: {}; name a folder that you may write to",
                                         results, folder, problem.message()));
  }
  return folder;
}

void write_results(const std::string& folder, const Scenario& scenario, const RunResult& result,
                   const Arguments& arguments) {
  std::vector<std::string> command_line{"meshbed", "run"};
  command_line.insert(command_line.end(), arguments.begin(), arguments.end());
  write_text_file(folder + "/summary.json", summary(scenario, result).dump(2) + "\n");
  write_text_file(folder + "/provenance.json", provenance(scenario, result, command_line).dump(2) + "\n");
}

}  // namespace

int run_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  Options options;
  Syntax syntax("run SCENARIO [options]");
  syntax.operands.add_options()  //
      ("scenario", po::value(&options.run.scenario_path)->required()->value_name("SCENARIO"),
       "the scenario file to run");
  syntax.positions.add("scenario", 1);
  syntax.options.add_options()  //
      ("results", po::value(&options.results)->value_name("DIR")->default_value("results"),
       "where DIR/<scenario>/sim/ is written")  //
      ("no-trace", po::bool_switch(&options.no_trace), "leave out messages.csv");
  add_run_options(syntax.options, options.run);
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;

  const Scenario scenario = scenario_for(options.run);
  const std::string folder = make_results_folder(options.results, scenario);
  const std::string seed_line = fmt::format("seed {}  scenario {}  world sim\n", scenario.seed, scenario.name);
  (options.run.json ? err : out) << seed_line << std::flush;
  if (const std::string left_out = not_carried_out(scenario); !left_out.empty()) err << "meshbed: " << left_out << "\n";

  sim::Recorder recorder(scenario.cluster, options.no_trace ? "" : folder + "/messages.csv");
  RunResult result = run_workload(scenario, {.files = built_files(), .contexts = options.run.contexts}, recorder);
  recorder.close();
  check_expectations(scenario, result);
  add_process_usage(result);

  write_results(folder, scenario, result, arguments);
  if (options.run.json) {
    out << summary(scenario, result).dump(2) << "\n";
  } else {
    out << text_report(scenario, result, folder);
  }
  const int status = exit_status(result);
  if (options.run.json && status != kExitOk) err << "meshbed: " << failure_line(result) << "\n";
  return status;
}

}  // namespace meshbed::cli

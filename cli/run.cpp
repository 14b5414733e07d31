#include "cli/run.h"

#include <fmt/format.h>

#include <ostream>

#include "cli/expect.h"
#include "cli/report.h"
#include "cli/results_folder.h"
#include "cli/workload.h"

namespace meshbed::cli {
namespace {

namespace po = boost::program_options;

struct Options {
  RunOptions run;
  std::string results = "results";
  bool no_trace = false;
};

void write_results(ResultsFolder& folder, const Scenario& scenario, const RunResult& result,
                   const Arguments& arguments) {
  std::vector<std::string> command_line{"meshbed", "run"};
  command_line.insert(command_line.end(), arguments.begin(), arguments.end());
  write_text_file(folder.aside("summary.json"), summary(scenario, result).dump(2) + "\n");
  write_text_file(folder.aside("provenance.json"), provenance(scenario, result, command_line).dump(2) + "\n");
  folder.publish();
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
  ResultsFolder folder(options.results, scenario.name);
  const std::string seed_line = fmt::format("seed {}  scenario {}  world sim\n", scenario.seed, scenario.name);
  (options.run.json ? err : out) << seed_line << std::flush;
  if (const std::string left_out = not_carried_out(scenario); !left_out.empty()) err << "meshbed: " << left_out << "\n";

  sim::Recorder recorder(scenario.cluster, options.no_trace ? "" : folder.aside("messages.csv"));
  RunResult result = run_workload(scenario, {.files = built_files(), .contexts = options.run.contexts}, recorder);
  recorder.close();
  check_expectations(scenario, result);
  add_process_usage(result);

  write_results(folder, scenario, result, arguments);
  if (options.run.json) {
    out << summary(scenario, result).dump(2) << "\n";
  } else {
    out << text_report(scenario, result, folder.path());
  }
  const int status = exit_status(result);
  if (options.run.json && status != kExitOk) err << "meshbed: " << failure_line(result) << "\n";
  return status;
}

}  // namespace meshbed::cli

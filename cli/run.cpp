#include "cli/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <stdexcept>

#include "cli/emulate.h"
#include "cli/expect.h"
#include "cli/metal.h"
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
  std::string time_limit_text = "300";
  std::string backend = "auto";
};

void write_results(ResultsFolder& folder, const Scenario& scenario, const RunResult& result,
                   const Arguments& arguments) {
  std::vector<std::string> command_line{"meshbed", "run"};
  command_line.insert(command_line.end(), arguments.begin(), arguments.end());
  write_text_file(folder.aside("summary.json"), summary(scenario, result).dump(2) + "\n");
  write_text_file(folder.aside("provenance.json"), provenance(scenario, result, command_line).dump(2) + "\n");
  folder.publish();
}

/// What a run has come to, in its folder and for the user; returns the exit status.
int conclude(ResultsFolder& folder, const Scenario& scenario, RunResult& result, const Options& options,
             const Arguments& arguments, std::ostream& out, std::ostream& err) {
  check_expectations(scenario, result);
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

std::string seed_line(const Scenario& scenario, const std::string& world) {
  return fmt::format("seed {}  scenario {}  world {}\n", scenario.seed, scenario.name, world);
}

int run_simulated(const Scenario& scenario, const Options& options, const Arguments& arguments, std::ostream& out,
                  std::ostream& err) {
  ResultsFolder folder(options.results, scenario.name, "sim");
  (options.run.json ? err : out) << seed_line(scenario, "sim") << std::flush;
  if (const std::string left_out = not_carried_out(scenario); !left_out.empty()) err << "meshbed: " << left_out << "\n";

  sim::Recorder recorder(scenario.cluster, options.no_trace ? "" : folder.aside("messages.csv"));
  RunResult result = run_workload(scenario, {.files = built_files(), .contexts = options.run.contexts}, recorder);
  recorder.close();
  add_process_usage(result);
  return conclude(folder, scenario, result, options, arguments, out, err);
}

/// One rank of the run. Rank 0 speaks for all; the others say what went wrong with them, and nothing else.
int run_on_metal(const Scenario& scenario, const Options& options, const Arguments& arguments, std::ostream& out,
                 std::ostream& err) {
  const MetalPlace place = metal_place(from_environment);
  const MetalOptions metal{
      .files = built_files(),
      .time_limit_s = static_cast<double>(parse_count("--time-limit", options.time_limit_text, 1, 1'000'000))};
  if (place.rank != 0) {
    const RunResult result = run_metal(scenario, place, metal, nullptr);
    for (const RankError& error : result.simulation.errors) {
      err << "meshbed: rank " << error.rank << ": " << error.text << "\n";
    }
    return result.simulation.errors.empty() || scenario.expect.error ? kExitOk : kExitBroken;
  }
  const std::string world = metal_world_name();
  ResultsFolder folder(options.results, scenario.name, world);
  (options.run.json ? err : out) << seed_line(scenario, world) << std::flush;
  sim::Recorder recorder(scenario.cluster, options.no_trace ? "" : folder.aside("messages.csv"));
  RunResult result = run_metal(scenario, place, metal, &recorder);
  recorder.close();
  return conclude(folder, scenario, result, options, arguments, out, err);
}

/// The options that change what runs, as they were given.
std::vector<std::string> handed_on(const RunOptions& run) {
  std::vector<std::string> words;
  for (const std::string& each : run.overrides) words.insert(words.end(), {"--set", each});
  if (run.seed) words.insert(words.end(), {"--seed", std::to_string(*run.seed)});
  return words;
}

int run_emulated(const Scenario& scenario, const Options& options, const Arguments& arguments, std::ostream& out,
                 std::ostream& err) {
  ResultsFolder folder(options.results, scenario.name, "emu");
  (options.run.json ? err : out) << seed_line(scenario, "emu") << std::flush;
  const Emulation emulation =
      emulate(scenario,
              {.arguments = handed_on(options.run),
               .time_limit_s = static_cast<double>(parse_count("--time-limit", options.time_limit_text, 1, 1'000'000)),
               .trace = !options.no_trace,
               .backend = options.backend,
               .say = [&err](const std::string& line) { err << "meshbed: " << line << "\n"
                                                            << std::flush; }});
  for (const std::string& trouble : emulation.troubles) err << "meshbed: " << trouble << "\n";
  if (emulation.interrupted) {
    err << "meshbed: interrupted; nothing is left running\n";
    return kExitInterrupted;
  }
  if (emulation.summary.is_null()) {
    err << "meshbed: rank 0 wrote no summary: the run never came to its end\n";
    return emulation.exit_code == kExitOk ? kExitBroken : emulation.exit_code;
  }
  auto summary = emulation.summary;
  summary["emu"] = emulation.machines;
  auto provenance = emulation.provenance;
  provenance["emu"] = emulation.machines;
  provenance["emu"]["command_line"] = arguments;
  write_text_file(folder.aside("summary.json"), summary.dump(2) + "\n");
  write_text_file(folder.aside("provenance.json"), provenance.dump(2) + "\n");
  if (!options.no_trace) write_text_file(folder.aside("messages.csv"), emulation.messages_csv);
  folder.publish();
  if (options.run.json) {
    out << summary.dump(2) << "\n";
  } else {
    // The seed line has been printed, and the results are not where the node wrote them.
    const std::string report = emulation.report.substr(emulation.report.find('\n') + 1);
    const std::size_t from = report.find("results in "), to = report.find('\n', from);
    out << report.substr(0, from) << emulation.machines_text << "\nresults in " << folder.path()
        << report.substr(std::min(to, report.size()));
  }
  return emulation.exit_code;
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
       "where DIR/<scenario>/<world>/ is written")                                //
      ("no-trace", po::bool_switch(&options.no_trace), "leave out messages.csv")  //
      ("time-limit", po::value(&options.time_limit_text)->value_name("SECONDS")->default_value("300"),
       "emu, metal: the run is given up after this; sim has [limits] time");
  syntax.options.add_options()  //
      ("backend", po::value(&options.backend)->value_name("BACKEND")->default_value("auto"),
       "emu: microvm (one virtual machine a node; the host is not touched), namespaces (all nodes in this host's "
       "kernel; "
       "root; changes the host's routing while it runs), auto: microvm, unless meshbed emu up has set the scenario up");
  add_run_options(syntax.options, options.run);
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;

  require_choice("--backend", "backend", options.backend, {"auto", "microvm", "namespaces"});
  if (options.backend != "auto" && options.run.world != "emu") {
    throw std::runtime_error("--backend is the emulated world's; --world " + options.run.world + " has none");
  }
  const Scenario scenario = scenario_for(options.run);
  if (options.run.world == "metal") return run_on_metal(scenario, options, arguments, out, err);
  if (options.run.world == "emu") return run_emulated(scenario, options, arguments, out, err);
  return run_simulated(scenario, options, arguments, out, err);
}

}  // namespace meshbed::cli

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <utility>

#include "cli/command/commands.h"
#include "cli/command/telemetry.h"
#include "cli/common/run_options.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/interruption.h"
#include "testbed/base/json_text.h"
#include "testbed/base/units.h"
#include "testbed/render/perfetto.h"
#include "testbed/render/render.h"
#include "testbed/render/track_events.h"
#include "testbed/result/expect.h"
#include "testbed/result/provenance.h"
#include "testbed/result/results_folder.h"
#include "testbed/result/run_document.h"
#include "testbed/result/tables.h"
#include "testbed/result/trace_file.h"
#include "testbed/result/verdict.h"
#include "testbed/scenario/placement.h"
#include "testbed/workload/megakernel/outcome.h"
#include "testbed/workload/outcome.h"
#include "testbed/workload/workload.h"
#include "testbed/world/fault_folder.h"
#include "testbed/world/replay/recorded_run.h"
#include "testbed/world/replay/replay_run.h"
#include "testbed/world/run_workload.h"
#include "testbed/world/world.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

constexpr const char* kNodeResults = "results";  // in a node's folder

struct RunCommandOptions {
  RunOptions run;
  std::string results;
  bool results_given = false;  // false: the default folder, in which variants have names of their own
  bool no_trace = false;
  std::string mode = "plugin";
  bool trace = false;
  bool no_expect = false;
  bool each_iteration = false;
  std::string perfetto_out;
  std::string junit;
  std::string backend = "auto";
  TelemetryOptions telemetry;
};

void write_results(ResultsFolder& folder, const Scenario& scenario, const RunResult& result, const std::string& summary,
                   const Arguments& arguments) {
  std::vector<std::string> command_line{"meshbed", "run"};
  command_line.insert(command_line.end(), arguments.begin(), arguments.end());
  write_text_file(folder.aside("summary.json"), summary);
  write_text_file(folder.aside("provenance.json"),
                  json_text(provenance(scenario, result, command_line), kIndent) + "\n");
  folder.publish();
}

/// A trace of that name is in the older format.
bool is_json(const std::string& trace) { return trace.ends_with(".json"); }

/// What a run has come to, in its folder and for the user; returns the exit status.
int conclude(ResultsFolder& folder, const Scenario& scenario, RunResult& result, const RunCommandOptions& options,
             const Arguments& arguments, std::ostream& out, std::ostream& err) {
  check_expectations(scenario, result);
  const document::Document report = document::run_document({.scenario = scenario,
                                                            .result = result,
                                                            .results_folder = folder.path(),
                                                            .each_iteration = options.each_iteration});
  const std::string summary = json_text(json_of(report), kIndent) + "\n";
  write_results(folder, scenario, result, summary, arguments);
  if (!options.junit.empty()) write_text_file(options.junit, junit_of(report, scenario.name));
  out << (options.run.json ? summary : text_of(report));
  const int status = exit_status(result);
  if (options.run.json && status != kExitOk) err << "meshbed: " << failure_line(result) << "\n";
  return status;
}

ResultsFolder results_folder(const RunCommandOptions& options, const Scenario& scenario, const std::string& world) {
  if (options.results_given) return ResultsFolder(options.results, scenario.name, world);
  return ResultsFolder(kResultsFolder, variant_name(scenario.name, settings_of(options.run)), world);
}

std::string seed_line(const Scenario& scenario, const std::string& world) {
  return fmt::format("seed {}  scenario {}  world {}{}\n", scenario.seed, scenario.name, world,
                     scenario.assumed.empty() ? "" : "  with assumed values");
}

/// One of several ranks that are a process each. Rank 0 reports for all; the others report their errors, and
/// nothing else.
int run_silently(const RunWorld& world, const Scenario& scenario, const RunCommandOptions& options, std::ostream& err) {
  sim::Recorder unread(scenario.cluster, "");
  const RunResult result =
      run_workload(world, scenario, {.recorder = &unread, .time_limit_s = time_limit_of(options.run)});
  const std::vector<RankError>& errors = result.simulation.errors;
  for (const RankError& error : errors) err << "meshbed: rank " << error.rank << ": " << error.text << "\n";
  const auto folder = fault_folder();
  if (folder && !errors.empty()) leave_errors(*folder, world.ranks_here(ranks_of(scenario)).first, errors);
  return errors.empty() || scenario.expect.error ? kExitOk : kExitBroken;
}

/// What is left of a run that is interrupted.
std::string kept_of(const std::string& folder) {
  const bool has_earlier = std::filesystem::exists(folder + "/summary.json");
  return has_earlier ? "nothing of this run is kept; " + folder + " has the run before it"
                     : "nothing of this run is kept";
}

int run_here(const RunWorld& world, const Scenario& scenario, const RunCommandOptions& options,
             const Arguments& arguments, std::ostream& out, std::ostream& err) {
  if (!world.speaks()) return run_silently(world, scenario, options, err);
  const double time_limit_s = time_limit_of(options.run);
  check_telemetry_places(options.telemetry);
  const WorldFacts facts = world.facts();
  report_findings(scenario, world, err);
  if (facts.faults_by == FaultsBy::kHands) err << left_to_hands_line(scenario);
  ResultsFolder folder = results_folder(options, scenario, facts.name);
  std::optional<Interruption> interruption;
  if (facts.virtual_time) interruption.emplace(info_of(scenario.workload.kind).counts, kept_of(folder.path()));
  (options.run.json ? err : out) << seed_line(scenario, facts.name) << std::flush;

  sim::Recorder recorder(scenario.cluster, options.no_trace ? "" : folder.aside("messages.csv"));
  RunResult result = run_workload(world, scenario,
                                  {.recorder = &recorder,
                                   .contexts = options.run.contexts,
                                   .for_time_line = !options.perfetto_out.empty() && !is_json(options.perfetto_out),
                                   .time_limit_s = time_limit_s});
  recorder.close();
  if (result.rings != nullptr && !options.no_trace) {
    write_text_file(folder.aside("slots.csv"), result.rings->trace.csv());
  }
  if (facts.virtual_time) add_process_usage(result);  // ranks of several processes have added theirs up
  const int status = conclude(folder, scenario, result, options, arguments, out, err);
  write_telemetry(options.telemetry, scenario, result, err);
  if (!options.perfetto_out.empty()) {
    // The recorder keeps no messages, which may be millions: they are read back from its file.
    const auto write = is_json(options.perfetto_out) ? perfetto_trace : track_events;
    write_text_file(options.perfetto_out, write(scenario, result, read_trace_file(folder.path() + "/messages.csv")));
  }
  return status;
}

/// A schedule, without plugin code. It writes messages.csv with --trace alone.
int run_as_replay(const RunWorld& world, const Scenario& scenario, const RunCommandOptions& options,
                  const Arguments& arguments, std::ostream& out, std::ostream& err) {
  const WorldFacts facts = world.facts();
  const bool is_recorded = !scenario.replay_schedule.empty();
  if (options.trace && scenario.replay_detail != "plugin" && !is_recorded) {
    throw std::runtime_error(
        "--trace: a replay writes its messages with replay.detail = plugin alone; set that, or replay a schedule of "
        "meshbed record");
  }
  if (is_recorded && !options.run.profile.empty()) {
    throw std::runtime_error("--profile: the schedule has the times that software took in its run; leave it out");
  }
  std::string messages_csv;
  std::string* const trace = options.trace ? &messages_csv : nullptr;
  RunResult result = is_recorded ? replay_recorded(scenario, trace) : run_replay(scenario, trace);
  ResultsFolder folder = results_folder(options, scenario, facts.name);
  if (options.trace) write_text_file(folder.aside("messages.csv"), messages_csv);
  (options.run.json ? err : out) << seed_line(scenario, facts.name) << std::flush;
  add_process_usage(result);
  return conclude(folder, scenario, result, options, arguments, out, err);
}

/// What rank 0 left behind in its node.
struct NodeResults {
  nlohmann::ordered_json summary, provenance;  // null where it wrote none
  std::string messages_csv;
  NodeTelemetry telemetry;
};

NodeResults read_node_results(const std::string& folder, bool trace) {
  NodeResults results;
  // The summary is there when all is: the folder appears as a whole.
  if (!std::filesystem::exists(folder + "summary.json")) return results;
  results.summary = nlohmann::ordered_json::parse(read_text_file(folder + "summary.json"));
  results.provenance = nlohmann::ordered_json::parse(read_text_file(folder + "provenance.json"));
  if (trace) results.messages_csv = read_text_file(folder + "messages.csv");
  return results;
}

/// What every rank runs in its node.
std::vector<std::string> rank_words(const Scenario& scenario, const RunCommandOptions& options) {
  std::vector<std::string> words{"run", std::filesystem::absolute(scenario.path).string(), "--results", kNodeResults};
  if (options.no_trace) words.emplace_back("--no-trace");
  if (options.each_iteration) words.emplace_back("--iterations");
  if (options.no_expect) words.emplace_back("--no-expect");
  for (const std::string& each : metal_words(options.run)) words.push_back(each);
  for (const std::string& each : telemetry_words(options.telemetry)) words.push_back(each);
  return words;
}

/// Errors that rank 0 has not heard of.
void add_errors(nlohmann::ordered_json& summary, const std::vector<RankError>& errors) {
  auto& list = summary["errors"];
  for (auto& error : json_of(document::error_table(errors))) {
    const bool known = std::any_of(list.begin(), list.end(), [&](const auto& each) {
      return each.at("rank") == error.at("rank") && each.at("text") == error.at("text");
    });
    if (!known) list.push_back(std::move(error));
  }
}

/// Completes the result of a run without a report of rank 0, whose node is stopped or has lost its power.
void conclude_without_rank_0(const Scenario& scenario, RunResult& result) {
  const BuiltFiles files = built_files();
  result.simulation.plugin_sha256 = sha256_of_file(net_plugin_of(scenario, files));
  result.simulation.engine_sha256 = sha256_of_file(files.engine);
  make_workload(scenario, files, {0, 0})->conclude(result);
}

int run_in_nodes(const RunWorld& world, const Scenario& scenario, const RunCommandOptions& options,
                 const Arguments& arguments, std::ostream& out, std::ostream& err) {
  check_telemetry_places(options.telemetry);
  const std::string name = world.facts().name;
  report_findings(scenario, world, err);
  ResultsFolder folder = results_folder(options, scenario, name);
  (options.run.json ? err : out) << seed_line(scenario, name) << std::flush;
  NodeResults results;
  const Workload& workload = scenario.workload;
  const auto collect = [&](const std::string& node_folder) {
    results = read_node_results(fmt::format("{}/{}/{}/{}/", node_folder, kNodeResults, scenario.name, name),
                                !options.no_trace);
    results.telemetry = take_node_telemetry(options.telemetry, node_folder);
  };
  auto [known, emulation] = world.run(
      scenario,
      {.time_limit_s = time_limit_of(options.run),
       .nodes = {.command = rank_words(scenario, options),
                 .rank_bytes = (workload.in_place && workload.kind != WorkloadKind::kMatrix ? 1 : 2) * workload.bytes,
                 .backend = options.backend,
                 .say = say_on(err),
                 .collect = collect,
                 .reports = folder.path()}});
  if (!tell_troubles(emulation, not_taken_lines(scenario, emulation.faults), err)) return kExitInterrupted;
  if (results.summary.is_null()) {
    err << "meshbed: rank 0 wrote no summary: the run never came to its end\n";
    if (!emulation.errors.empty() || !emulation.waiters.empty()) {
      conclude_without_rank_0(scenario, known);
      const int status = conclude(folder, scenario, known, options, arguments, out, err);
      return emulation.exit_code == kExitNoProgress ? kExitNoProgress : status;
    }
    return emulation.exit_code == kExitOk ? kExitBroken : emulation.exit_code;
  }
  auto& [summary, provenance, messages_csv, telemetry] = results;
  summary["emu"] = emulation.machines;
  add_errors(summary, emulation.errors);
  summary["faults"] = json_of(document::fault_table(scenario, emulation.faults));
  provenance["emu"] = emulation.machines;
  provenance["overrides"] = scenario.overrides;  // a rank's own has the net plugin's absolute path
  provenance["emu"]["command_line"] = arguments;
  write_text_file(folder.aside("summary.json"), json_text(summary, kIndent) + "\n");
  write_text_file(folder.aside("provenance.json"), json_text(provenance, kIndent) + "\n");
  if (!options.no_trace) write_text_file(folder.aside("messages.csv"), messages_csv);
  folder.publish();
  if (options.run.json) {
    out << json_text(summary, kIndent) << "\n";
  } else {
    // The seed line has been printed, and the results are not where the node wrote them.
    const std::string report = emulation.report.substr(emulation.report.find('\n') + 1);
    const std::size_t from = report.find("results in "), to = report.find('\n', from);
    out << report.substr(0, from) << emulation.machines_text << "\nresults in " << folder.path()
        << report.substr(std::min(to, report.size()));
  }
  write_node_telemetry(options.telemetry, telemetry, err);
  return emulation.exit_code;
}

}  // namespace

int run_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  RunCommandOptions options;
  Syntax syntax("run SCENARIO [options]");
  syntax.operands.add_options()  //
      ("scenario", po::value(&options.run.scenario_path)->required()->value_name("SCENARIO"),
       "the scenario file to run");
  syntax.positions.add("scenario", 1);
  syntax.options.add_options()  //
      ("iterations", po::bool_switch(&options.each_iteration),
       "also a table of the timed iterations, with the faults between them")  //
      ("results", po::value<std::string>()->value_name("DIR")->notifier([&options](const std::string& folder) {
        options.results = folder;
        options.results_given = true;
      }),
       "where DIR/<scenario>/<world>/ is written; default: results, and <scenario>+KEY=VALUE... for what was set")  //
      ("mode", po::value(&options.mode)->value_name("MODE")->default_value(options.mode),
       "plugin: ranks load the net plugin and the engine; replay: the collective's schedule alone, without plugin "
       "code, "
       "for up to 65536 ranks (docs/scale.md)")                                                              //
      ("trace", po::bool_switch(&options.trace), "with --mode replay: write messages.csv, too")              //
      ("no-trace", po::bool_switch(&options.no_trace), "leave out messages.csv and slots.csv")               //
      ("no-expect", po::bool_switch(&options.no_expect), "leave out what the scenario's [expect] promises")  //
      ("perfetto-out", po::value(&options.perfetto_out)->value_name("FILE"),
       "also write the run as a trace for ui.perfetto.dev: calls, messages, links, slots and faults on one time line; "
       "as TrackEvents, or of a name that ends in .json in the older JSON format");
  syntax.options.add_options()  //
      ("junit", po::value(&options.junit)->value_name("FILE"),
       "also write proofs and expectations as JUnit XML, a test case each, for a CI system")  //
      ("backend", po::value(&options.backend)->value_name("BACKEND")->default_value("auto"),
       "emu: microvm (one virtual machine a node; the host is not touched), namespaces (all nodes in this host's "
       "kernel; root; changes the host's routing while it runs), auto: microvm, unless meshbed emu up has set the "
       "scenario up");
  add_telemetry_options(syntax.options, options.telemetry);
  add_run_options(syntax.options, options.run);
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;

  require_choice("--mode", "mode", options.mode, {"plugin", "replay"});
  require_choice("--backend", "backend", options.backend, {"auto", "microvm", "namespaces"});
  const RunWorld& world = run_world(options.run.world);
  if (options.backend != "auto" && !world.boots_nodes()) {
    throw std::runtime_error(
        fmt::format("--backend is the emulated world's; --world {} has none", name_of(options.run.world)));
  }
  if (!options.perfetto_out.empty() && (options.no_trace || world.boots_nodes())) {
    throw std::runtime_error(options.no_trace ? "--perfetto-out shows what --no-trace leaves out: give one of them"
                                              : "--perfetto-out: not from emulated nodes, which have a clock each");
  }
  if (!options.junit.empty() && world.boots_nodes()) {
    throw std::runtime_error("--junit: not from emulated nodes; their checks are in summary.json");
  }
  refuse_simulated_time_limit(options.run);
  Scenario scenario = scenario_for(options.run);
  if (options.no_expect) scenario.expect = {};
  if (options.trace && options.mode != "replay") {
    throw std::runtime_error(
        "--trace: a run of the plugin writes messages.csv unless --no-trace is given; leave it out");
  }
  if (options.mode == "replay") {
    if (options.run.world != WorldKind::kSimulated) {
      throw std::runtime_error(
          fmt::format("--mode replay is simulated; --world {} runs the real plugin", name_of(options.run.world)));
    }
    if (!options.perfetto_out.empty()) {
      throw std::runtime_error("--perfetto-out: a replay keeps no messages; leave --mode replay out");
    }
    if (options.each_iteration && scenario.replay_schedule.empty()) {
      throw std::runtime_error("--iterations: one iteration is replayed; leave --mode replay out");
    }
    const TelemetryOptions& telemetry = options.telemetry;
    if (!telemetry.zernel_out.empty() || !telemetry.prom_out.empty() || !telemetry.inspector_out.empty()) {
      throw std::runtime_error(
          "--prom-out, --inspector-out and --zernel-out are of what the plugin counts, which a replay does not run; "
          "leave --mode replay out");
    }
    return run_as_replay(world, scenario, options, arguments, out, err);
  }
  check_telemetry_options(options.telemetry, world.facts());
  ask_for_telemetry(options.telemetry, scenario.workload);
  if (!world.facts().virtual_time && scenario.workload.kind == WorkloadKind::kProgram) {
    throw std::runtime_error(
        fmt::format("--world {}: programs are ranks in the simulated world alone; in emulated nodes `meshbed exec` "
                    "runs them, and on real machines your launcher does",
                    name_of(options.run.world)));
  }
  if (!world.facts().virtual_time && scenario.workload.kind == WorkloadKind::kMegakernel) {
    throw std::runtime_error(
        fmt::format("--world {}: megakernels are simulated; leave --world out", name_of(options.run.world)));
  }
  if (world.boots_nodes()) return run_in_nodes(world, scenario, options, arguments, out, err);
  return run_here(world, scenario, options, arguments, out, err);
}

}  // namespace meshbed::testbed

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ostream>
#include <vector>

#include "cli/command/commands.h"
#include "cli/command/tools/explore_rings.h"
#include "cli/common/run_options.h"
#include "plugin/coll/transport/transport.h"
#include "sim/trace/digest.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/interruption.h"
#include "testbed/base/units.h"
#include "testbed/scenario/plugin_file.h"
#include "testbed/verify/explore_run.h"
#include "testbed/workload/rank_table.h"
#include "testbed/workload/result.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

/// Two nodes with two cables, each with its own subnet. Time-outs are short, so that runs which reach them end soon.
constexpr const char* kCluster = R"(
[topology]
kind = "ring"
nodes = 2
rails = 2
[environment]
NCCL_IB_TIMEOUT = "10"
NCCL_MESH_CONNECT_TIMEOUT_SEC = "2"
NCCL_MESH_FAILOVER_TIMEOUT_SEC = "2"
[workload]
kind = "idle"
)";

/// Stripes messages of 1 KiB and more, so that the programs' messages are striped.
constexpr const char* kStriped = "environment.NCCL_MESH_STRIPE_BYTES=\"1024\"";

struct Wanted {
  ExploreOptions run;
  ChoiceTreeOptions tree;
  std::vector<ExploredProgram> programs;
  ExploreRings rings;
  std::optional<int> interruptions, late;
  std::optional<std::string> replay;
  std::vector<std::string> overrides;
  bool list = false;

  ExploreOptions options_for(const ExploredProgram& program) const {
    ExploreOptions options = run;
    options.interruptions = interruptions.value_or(program.interruptions);
    options.late = late.value_or(program.late);
    return options;
  }
  Scenario scenario_for(const ExploredProgram& program) const {
    std::vector<std::string> changes;
    if (program.striped) changes.emplace_back(kStriped);
    changes.insert(changes.end(), overrides.begin(), overrides.end());
    return parse_scenario(kCluster, "explore", changes);
  }
};

std::string bound(int late) { return late == Interleaver::kNoBound ? "any" : std::to_string(late); }

/// The requested programs of the net plugin and of the rings; all if none was named.
void choose_programs(const std::vector<std::string>& names, bool rings_alone, Wanted& wanted) {
  if (names.empty()) {
    if (!rings_alone) wanted.programs = explored_programs();
    for (const RingExploreProgram& one : ring_explore_programs()) wanted.rings.programs.push_back(&one);
    return;
  }
  std::vector<std::string> known;
  if (!rings_alone) {
    for (const ExploredProgram& one : explored_programs()) known.emplace_back(one.name);
  }
  const std::size_t of_plugin = known.size();
  for (const RingExploreProgram& one : ring_explore_programs()) known.emplace_back(one.name);
  wanted.rings.prints_schedules = true;
  for (const std::string& name : names) {
    require_choice("--only", "program", name, known);
    const auto at = static_cast<std::size_t>(std::find(known.begin(), known.end(), name) - known.begin());
    if (at < of_plugin) {
      wanted.programs.push_back(explored_programs()[at]);
    } else {
      wanted.rings.programs.push_back(&ring_explore_programs()[at - of_plugin]);
    }
  }
}

std::optional<Wanted> parse_explore(const Arguments& arguments, std::ostream& out) {
  Wanted wanted;
  bool explore = false, all_orders = false, rings = false;
  std::string version, interruptions, late, runs_max = std::to_string(wanted.tree.runs_max), replay;
  std::string states_max = std::to_string(wanted.rings.states_max);
  ExploreGraph graph;
  std::vector<std::string> only;
  Syntax syntax("fuzz --explore [options]");
  syntax.options.add_options()                                                                                     //
      ("explore", po::bool_switch(&explore), "run every order of the calls of two ranks, in the simulated world")  //
      ("plugin", po::value(&wanted.run.plugin)->value_name("FILE"), "an NCCL net plugin; default: Meshbed's own")  //
      ("net-version", po::value(&version)->value_name("N"), "8 to 12; default: the newest that it has")            //
      ("only", po::value(&only)->value_name("PROGRAM"), "this program; may be repeated")                           //
      ("list", po::bool_switch(&wanted.list), "the programs")                                                      //
      ("interruptions", po::value(&interruptions)->value_name("N"),
       "calls of a run that may be made while the wire is delivering; default: the program's own")  //
      ("late", po::value(&late)->value_name("N"),
       "times that the wire may deliver while a rank could make progress; default: the program's own")        //
      ("all-orders", po::bool_switch(&all_orders), "run all orders, including equivalent ones")               //
      ("rings", po::bool_switch(&rings), "the programs of megakernel rings alone, which need no net plugin")  //
      ("program", po::value(&graph.path)->value_name("FILE"),
       "with --rings: a slot graph (docs/megakernel.md) instead of the programs here")                             //
      ("lanes", po::value(&graph.lanes)->value_name("N"), "with --program: of each rank, 1 to 8; default: 2")      //
      ("places", po::value(&graph.places)->value_name("N"), "with --program: for blocks; default: for all lanes")  //
      ("slots", po::value(&graph.slots)->value_name("N"), "with --program: of each ring; default: the program's")  //
      ("flag-qp", po::value(&graph.flag_qp)->value_name("WHICH"),
       "with --program: same or other queue pair than the data; default: same")                              //
      ("masked", po::bool_switch(&graph.masked), "with --program: the second tenant is masked at any time")  //
      ("states-max", po::value(&states_max)->value_name("N")->default_value(states_max),
       "states of a ring program, at most")                                                                       //
      ("runs-max", po::value(&runs_max)->value_name("N")->default_value(runs_max), "runs of a program, at most")  //
      ("replay", po::value(&replay)->value_name("SCHEDULE"), "one run of one program, step by step")              //
      ("set", po::value(&wanted.overrides)->value_name("PATH=VALUE"), "as for meshbed run, on the two nodes used here");
  syntax.only_with({"program"}, {"lanes", "places", "slots", "flag-qp", "masked"});
  if (!parse_arguments(arguments, syntax, out)) return std::nullopt;
  if (!graph.path.empty()) {
    if (!rings) throw std::runtime_error("--program: goes with --rings; a slot graph is of rings alone");
    if (!only.empty()) throw std::runtime_error("--program: has no effect with --only; remove one of them");
    wanted.rings.graph = std::make_shared<const RingExploreProgram>(explored_graph_of(graph));
    wanted.rings.programs.push_back(wanted.rings.graph.get());
    wanted.rings.prints_schedules = true;
  } else {
    choose_programs(only, rings, wanted);
  }
  wanted.rings.states_max = parse_count("--states-max", states_max, 1, 100'000'000);
  if (wanted.run.plugin.empty()) wanted.run.plugin = built_files().net_plugin;
  if (!wanted.programs.empty()) wanted.run.plugin = require_plugin_file(wanted.run.plugin);
  if (!version.empty()) wanted.run.version = net_version_from(version);
  if (!interruptions.empty()) {
    wanted.interruptions = static_cast<int>(parse_count("--interruptions", interruptions, 0, 1000));
  }
  if (!late.empty()) wanted.late = static_cast<int>(parse_count("--late", late, 0, Interleaver::kNoBound));
  wanted.tree.reduce = !all_orders;
  wanted.tree.runs_max = parse_count("--runs-max", runs_max, 1, 1'000'000'000);
  if (!replay.empty()) {
    if (!wanted.rings.programs.empty() && !only.empty()) {
      throw std::runtime_error(
          "--replay: a ring program has no letters; its shortest schedule is printed step by step");
    }
    if (wanted.programs.size() != 1) throw std::runtime_error("--replay: say of which program, with --only PROGRAM");
    wanted.replay = replay;
  }
  return wanted;
}

int replay_one(const Wanted& wanted, std::ostream& out) {
  const ExploredProgram& program = wanted.programs.front();
  const Scenario scenario = wanted.scenario_for(program);
  ExploreOptions options = wanted.options_for(program);
  options.transcript = &out;
  out << std::flush;
  const ScheduleFinding result = replay_choices(
      *wanted.replay, wanted.tree, [&](Chooser& chooser) { explore_run(scenario, options, program, chooser); });
  out << fmt::format("{} {}: {}\n", program.name, result.schedule, result.finding.empty() ? "right" : result.finding);
  return result.finding.empty() ? kExitOk : kExitBroken;
}

/// The command that runs a schedule again.
std::string again(const Wanted& wanted, const ExploredProgram& program, const std::string& schedule) {
  std::string words = fmt::format("meshbed fuzz --explore --only {} --interruptions {}", program.name,
                                  wanted.options_for(program).interruptions);
  if (wanted.run.plugin != built_files().net_plugin) words += " --plugin '" + wanted.run.plugin + "'";
  if (wanted.run.version != 0) words += fmt::format(" --net-version {}", wanted.run.version);
  for (const std::string& each : wanted.overrides) words += " --set '" + each + "'";
  return words + " --replay " + schedule;
}

/// Digest of all outcomes: equal if the same orders are distinguished.
std::string digest_of(const std::set<std::string>& outcomes) {
  sim::Digest digest;
  for (const std::string& outcome : outcomes) digest.add(outcome);
  return digest.hex();
}

int explore_all(const Wanted& wanted, std::ostream& out) {
  out << fmt::format("{:<17} {:>13} {:>5} {:>8} {:>9} {:>8} {:>8} {:>9}  digest\n", "program", "interruptions", "late",
                     "runs", "redundant", "choices", "longest", "outcomes")
      << std::flush;
  std::uint64_t runs = 0, broken = 0;
  bool whole = true;
  for (const ExploredProgram& program : wanted.programs) {
    const ExploreOptions options = wanted.options_for(program);
    const Scenario scenario = wanted.scenario_for(program);
    const ChoiceTreeReport report =
        walk_choices(wanted.tree, [&](Chooser& chooser) { explore_run(scenario, options, program, chooser); });
    out << fmt::format("{:<17} {:>13} {:>5} {:>8} {:>9} {:>8} {:>8} {:>9}  {}{}\n", program.name, options.interruptions,
                       bound(options.late), report.runs, report.redundant, report.choices, report.longest,
                       report.outcomes.size(), digest_of(report.outcomes),
                       report.whole ? "" : "  not all of them: --runs-max");
    for (const ScheduleFinding& one : report.findings) {
      out << fmt::format("  BROKEN: {}\n    again: {}\n", one.finding, again(wanted, program, one.schedule));
    }
    out << std::flush;
    runs += report.runs;
    broken += report.broken;
    whole = whole && report.whole;
  }
  out << fmt::format("{}: {}, {}; {} broken\n", counted(wanted.programs.size(), "program"), counted(runs, "run"),
                     whole ? "every distinguishable order" : "not every order", broken);
  return broken == 0 ? kExitOk : kExitBroken;
}

}  // namespace

int explore_command(const Arguments& arguments, std::ostream& out, std::ostream&) {
  const std::optional<Wanted> wanted = parse_explore(arguments, out);
  if (!wanted) return kExitOk;
  if (wanted->list) {
    for (const ExploredProgram& one : explored_programs()) out << fmt::format("{:<17} {}\n", one.name, one.about);
    list_explored_rings(out);
    return kExitOk;
  }
  // Ends that are one-sided provoke warnings; what matters of them is in the findings.
  const Interruption interruption("", "the rows above stay");
  set_log_level_of_plugins(wanted->replay ? LogLevel::kWarn : LogLevel::kError);
  if (wanted->replay) return replay_one(*wanted, out);
  const int of_plugin = wanted->programs.empty() ? kExitOk : explore_all(*wanted, out);
  const int of_rings = wanted->rings.programs.empty() ? kExitOk : explore_rings(wanted->rings, out);
  return of_plugin == kExitOk ? of_rings : of_plugin;
}

}  // namespace meshbed::testbed

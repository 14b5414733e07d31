#include "testbed/verify/conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <stdexcept>

#include "cli/command/commands.h"
#include "cli/common/run_options.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/json_text.h"
#include "testbed/base/units.h"
#include "testbed/scenario/placement.h"
#include "testbed/scenario/plugin_file.h"
#include "testbed/verify/conformance_cases.h"
#include "testbed/verify/conformance_run.h"
#include "testbed/workload/outcome.h"
#include "testbed/workload/rank_table.h"
#include "testbed/world/world.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

/// Two nodes with two cables, each a subnet of its own; the second node counts its devices the other way round.
constexpr const char* kDefaultCluster = R"(
[topology]
kind = "ring"
nodes = 2
rails = 2
gpu_direct = "dma-buf"
[[node]]
name = "node1"
device_order = "reversed"
[workload]
kind = "idle"
)";

struct ConformanceCommandOptions {
  RunOptions run;
  ConformancePlan plan;
  bool list = false;
};

std::optional<ConformanceCommandOptions> parse_conformance(const Arguments& arguments, std::ostream& out) {
  ConformanceCommandOptions options;
  std::string plugin;
  bool named = false;
  std::string version;
  Syntax syntax("conformance [PLUGIN.so] [options]");
  syntax.operands.add_options()(
      "plugin", po::value(&plugin)->value_name("PLUGIN.so")->notifier([&](const std::string&) { named = true; }),
      "an NCCL net plugin; default: Meshbed's own. The word ptx alone: conformance ptx compares the PTX interpreter "
      "with "
      "this GPU");
  syntax.positions.add("plugin", 1);
  syntax.options.add_options()                                                                                   //
      ("scenario", po::value(&options.run.scenario_path)->value_name("FILE"), "two nodes; default: two cables")  //
      ("net-version", po::value(&version)->value_name("N"), "8 to 12; default: all that the plugin has")         //
      ("only", po::value(&options.plan.only)->value_name("CASE"), "this case; may be repeated")                  //
      ("list", po::bool_switch(&options.list), "the cases and their rules");
  add_run_options(syntax.options, options.run);
  if (!parse_arguments(arguments, syntax, out)) return std::nullopt;
  if (options.list) return options;
  // Not an empty name: a variable that is not set must not have Meshbed's own plugin judged in another's place.
  if (!named) plugin = built_files().net_plugin;
  if (plugin.empty()) throw std::runtime_error("the plugin's name is empty; leave it out for Meshbed's own");
  options.plan.plugin = require_plugin_file(plugin);
  if (!version.empty()) {
    options.plan.versions.push_back(net_version_from(version));
  } else {
    for (int each = coll::kNewestNetVersion; each >= coll::kOldestNetVersion; --each) {
      options.plan.versions.push_back(each);
    }
  }
  std::vector<std::string> names;
  for (const ConformanceCase& one : conformance_cases()) names.emplace_back(one.name);
  for (const std::string& wanted : options.plan.only) require_choice("--only", "case", wanted, names);
  return options;
}

Scenario cluster_for(const ConformanceCommandOptions& options) {
  RunOptions run = options.run;
  Scenario scenario;
  if (run.scenario_path.empty()) {
    scenario = parse_scenario(kDefaultCluster, "conformance", run.overrides);
    if (!run.fabric.empty()) {
      require_fabric(run.fabric);
      scenario.fabric = run.fabric;
    }
    if (run.seed) scenario.seed = *run.seed;
  } else {
    scenario = scenario_for(run);
  }
  if (ranks_of(scenario) != 2 || scenario.cluster.nodes.size() != 2) {
    throw std::runtime_error(fmt::format("conformance: two ranks on two nodes are needed; {} has {} on {}",
                                         scenario.name, ranks_of(scenario), scenario.cluster.nodes.size()));
  }
  for (const Fault& fault : scenario.faults) {
    if (fault.point == "start") continue;
    throw std::runtime_error(
        fmt::format("conformance: {} has a fault that counts from point = \"{}\", which its cases do "
                    "not come to; only those from the start act here",
                    scenario.name, fault.point));
  }
  return scenario;
}

// ---- what is said

struct Tally {
  std::size_t kept = 0, broken = 0, not_looked_at = 0;
};

Tally tally_of(const ConformanceFindings& findings) {
  Tally tally;
  for (const CaseOutcome& outcome : findings.outcomes) {
    ++(outcome.is_broken() ? tally.broken : outcome.is_kept() ? tally.kept : tally.not_looked_at);
  }
  return tally;
}

/// Where nothing could be looked at, nothing was shown: that is no success.
int exit_code_of(const ConformanceFindings& findings) {
  if (findings.no_progress) return kExitNoProgress;
  const Tally tally = tally_of(findings);
  return findings.trouble.empty() && tally.broken == 0 && tally.kept > 0 ? kExitOk : kExitBroken;
}

std::string closing_line(const ConformanceFindings& findings) {
  std::vector<int> versions;
  for (const CaseOutcome& outcome : findings.outcomes) {
    if (versions.empty() || versions.back() != outcome.version) versions.push_back(outcome.version);
  }
  const Tally tally = tally_of(findings);
  std::string line = fmt::format("{} on {} of the table: {} kept, {} broken", counted(findings.outcomes.size(), "case"),
                                 counted(versions.size(), "version"), tally.kept, tally.broken);
  if (tally.not_looked_at > 0) line += fmt::format(", {} not looked at", tally.not_looked_at);
  if (tally.not_looked_at > 0 && tally.not_looked_at == findings.outcomes.size()) line += ": nothing was shown";
  return line;
}

std::string world_of(const ConformanceCommandOptions& options) { return run_world(options.run.world).facts().name; }

/// The report as text, case by case as they end: a plugin that takes its process with it leaves what was found before.
class TextReport {
 public:
  TextReport(const ConformanceCommandOptions& options, std::ostream& out) : out_(out) {
    out_ << fmt::format("conformance of {}, SHA-256 {}, world {}\n", options.plan.plugin,
                        sha256_of_file(options.plan.plugin).substr(0, 16), world_of(options));
  }
  void add(const CaseOutcome& outcome) {
    if (outcome.version != version_) out_ << fmt::format("\nncclNetPlugin_v{}\n", version_ = outcome.version);
    const char* const mark = outcome.is_broken() ? "BROKEN" : outcome.is_kept() ? "ok" : "-";
    out_ << fmt::format("  {:<6} {:<21} {}\n", mark, outcome.name, outcome.rule);
    if (outcome.is_broken()) out_ << fmt::format("         {:<21} {}\n", "", outcome.finding);
    if (!outcome.not_looked_at.empty()) {
      out_ << fmt::format("         {:<21} not looked at: {}\n", "", outcome.not_looked_at);
    }
    out_ << std::flush;
  }
  void close(const ConformanceFindings& findings) {
    out_ << "\n";
    for (const int absent : findings.absent) out_ << fmt::format("v{}: the file does not export it; skipped\n", absent);
    if (!findings.trouble.empty()) out_ << "error: " << findings.trouble << "\n";
    out_ << closing_line(findings) << "\n";
  }

 private:
  std::ostream& out_;
  int version_ = 0;
};

void print_json(const ConformanceCommandOptions& options, const ConformanceFindings& findings, std::ostream& out) {
  auto cases = nlohmann::ordered_json::array();
  for (const CaseOutcome& outcome : findings.outcomes) {
    cases.push_back({{"version", outcome.version},
                     {"name", outcome.name},
                     {"rule", outcome.rule},
                     {"kept", outcome.is_kept()},
                     {"finding", outcome.finding},
                     {"not_looked_at", outcome.not_looked_at},
                     {"time_ns", outcome.time_ns}});
  }
  const Tally tally = tally_of(findings);
  const nlohmann::ordered_json report{{"plugin", options.plan.plugin},
                                      {"sha256", sha256_of_file(options.plan.plugin)},
                                      {"world", world_of(options)},
                                      {"cases", cases},
                                      {"absent_versions", findings.absent},
                                      {"error", findings.trouble},
                                      {"kept", tally.kept},
                                      {"broken", tally.broken},
                                      {"not_looked_at", tally.not_looked_at}};
  out << json_text(report, kIndent) << "\n";
}

/// As one of the ranks.
ConformanceFindings run_rank(const RunWorld& world, const ConformanceCommandOptions& options,
                             const std::function<void(const CaseOutcome&)>& ended) {
  Scenario scenario = cluster_for(options);
  scenario.workload.net_plugin = options.plan.plugin;
  ConformanceFindings findings;
  const auto run_versions = [&](RankHost& host) -> Result<void> {
    for (const int version : options.plan.versions) {
      const VersionRun run{.plan = options.plan,
                           .version = version,
                           .begun = [](std::size_t) {},
                           .ended =
                               [&](std::size_t, const CaseOutcome& outcome) {
                                 findings.outcomes.push_back(outcome);
                                 ended(outcome);
                               },
                           .absent = [&] { findings.absent.push_back(version); }};
      if (const Result<void> done = run_version(host, run); !done) return done;
    }
    return ok();
  };
  const auto common = [&options] {
    return nlohmann::json{{"meshbed", kVersion},
                          {"net plugin", sha256_of_file(options.plan.plugin)},
                          {"--only", options.plan.only},
                          {"--net-version", options.plan.versions}};
  };
  const WorldOutcome outcome =
      world.run(scenario, {.run_rank = run_versions, .common = common, .time_limit_s = time_limit_of(options.run)});
  const std::vector<RankError>& errors = outcome.result.simulation.errors;
  if (!errors.empty()) findings.trouble = fmt::format("rank {}: {}", errors.front().rank, errors.front().text);
  return findings;
}

int run_in_nodes(const RunWorld& world, const ConformanceCommandOptions& options, std::ostream& out,
                 std::ostream& err) {
  std::vector<std::string> words{"conformance", options.plan.plugin};
  if (!options.run.scenario_path.empty()) {
    words.insert(words.end(), {"--scenario", std::filesystem::absolute(options.run.scenario_path).string()});
  }
  if (options.plan.versions.size() == 1) {
    words.insert(words.end(), {"--net-version", std::to_string(options.plan.versions.front())});
  }
  for (const std::string& name : options.plan.only) words.insert(words.end(), {"--only", name});
  for (const std::string& each : metal_words(options.run)) words.push_back(each);
  if (options.run.json) words.emplace_back("--json");
  const auto say = say_on(err);
  const WorldOutcome outcome = world.run(
      cluster_for(options), {.time_limit_s = time_limit_of(options.run),
                             .nodes = {.command = words, .rank_bytes = 256 * kMiB, .say = say, .collect = {}}});
  const Emulation& emulation = outcome.emulation;
  if (!tell_troubles(emulation, "", err)) return kExitInterrupted;
  out << emulation.report;
  // Both ranks end with 0 or 1 of their own.
  const bool ended = emulation.exit_code == kExitOk || emulation.exit_code == kExitBroken;
  if (!ended) {
    say(options.run.json ? "a rank's process ended before it could report; without --json the cases so far are shown"
                         : "a rank's process ended, or was given up, in the case after the last one that is listed");
  }
  say(emulation.machines_text);
  return emulation.exit_code == kExitNoProgress || ended ? emulation.exit_code : kExitBroken;
}

}  // namespace

int conformance_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  if (!arguments.empty() && arguments.front() == "ptx") {
    return conformance_ptx_command(Arguments(arguments.begin() + 1, arguments.end()), out, err);
  }
  const std::optional<ConformanceCommandOptions> options = parse_conformance(arguments, out);
  if (!options) return kExitOk;
  if (options->list) {
    for (const ConformanceCase& one : conformance_cases()) out << fmt::format("{:<21} {}\n", one.name, one.rule);
    return kExitOk;
  }
  const RunWorld& world = run_world(options->run.world);
  if (world.boots_nodes()) return run_in_nodes(world, *options, out, err);
  // Cases provoke warnings; what matters of them is in the findings.
  set_log_level_of_plugins(LogLevel::kError);
  ConformanceFindings findings;
  if (!world.facts().virtual_time) {
    std::optional<TextReport> report;
    const bool reports = world.speaks();
    if (reports && !options->run.json) report.emplace(*options, out);
    findings = run_rank(world, *options, [&report](const CaseOutcome& outcome) {
      if (report) report->add(outcome);
    });
    if (!reports) return findings.trouble.empty() ? kExitOk : kExitBroken;
    report ? report->close(findings) : print_json(*options, findings, out);
    return exit_code_of(findings);
  }
  findings =
      simulate_conformance(options->plan, cluster_for(*options), options->run.contexts, time_limit_of(options->run));
  if (findings.trouble.empty() && findings.absent.size() == options->plan.versions.size()) {
    findings.trouble = options->plan.plugin + " exports none of the requested ncclNetPlugin_v8 to v12";
  }
  if (options->run.json) {
    print_json(*options, findings, out);
  } else {
    TextReport report(*options, out);
    for (const CaseOutcome& outcome : findings.outcomes) report.add(outcome);
    report.close(findings);
  }
  return exit_code_of(findings);
}

}  // namespace meshbed::testbed

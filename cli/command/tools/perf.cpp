#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string_view>

#include "cli/bench/perf_format.h"
#include "cli/bench/perf_sweep.h"
#include "cli/command/commands.h"
#include "cli/common/closest_name.h"
#include "cli/common/diagnostics.h"
#include "cli/common/exit_status.h"
#include "cli/common/json_text.h"
#include "cli/report/report.h"
#include "cli/scenario/placement.h"
#include "cli/world/run_options.h"
#include "cli/world/world.h"

namespace meshbed::cli {
namespace {

namespace po = boost::program_options;

/// The operation, with or without nccl-tests' "_perf" behind its name.
models::Collective parse_operation(const std::string& text) {
  constexpr std::string_view kSuffix = "_perf";
  std::string name = text;
  if (const auto at = name.rfind(kSuffix); at != std::string::npos && at + kSuffix.size() == name.size()) {
    name.resize(at);
  }
  if (const auto op = models::parse_collective(name)) return *op;
  const std::vector<std::string> accepted = models::collective_names();
  const std::string close = closest_name(name, accepted);
  throw std::runtime_error(fmt::format("perf: there is no operation \"{}\"{}; accepted: {}", text,
                                       close.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", close),
                                       list_names(accepted)));
}

std::optional<PerfOptions> parse_perf(const Arguments& arguments, std::ostream& out) {
  PerfOptions options;
  std::string op_text, min_text = "32M", max_text = "32M", step_text, factor_text, type = "float", reduction = "sum";
  std::string algorithm, protocol;
  std::optional<int> iterations;
  int check = 1, threads = 1, gpus = 1;
  Syntax syntax("perf OP --scenario FILE [options]", "options (nccl-tests' names)");
  syntax.operands.add_options()("op", po::value(&op_text)->required()->value_name("OP"),
                                "all_reduce, all_gather, reduce_scatter, broadcast, reduce, alltoall, gather, scatter "
                                "or sendrecv; OP_perf too");
  syntax.positions.add("op", 1);
  syntax.options.add_options()                                                                                //
      ("scenario", po::value(&options.run.scenario_path)->required()->value_name("FILE"), "where to run it")  //
      ("minbytes,b", po::value(&min_text)->value_name("SIZE")->default_value(min_text), "smallest; K, M, G")  //
      ("maxbytes,e", po::value(&max_text)->value_name("SIZE")->default_value(max_text), "largest")            //
      ("stepfactor,f", po::value(&factor_text)->value_name("N"), "multiply the size by this, at least 2")     //
      ("stepbytes,i", po::value(&step_text)->value_name("SIZE"), "or add this; without either: 1M")           //
      ("iters,n", po::value<int>()->value_name("N")->notifier([&iterations](int count) { iterations = count; }),
       "timed iterations; default: 2 in virtual time, which repeats exactly, else 5")  //
      ("warmup_iters,w", po::value(&options.warmup)->value_name("N")->default_value(options.warmup),
       "iterations before, of the largest and the smallest size")                                             //
      ("check,c", po::value(&check)->value_name("0|1")->default_value(1), "check every iteration; 0: never")  //
      ("datatype,d", po::value(&type)->value_name("TYPE")->default_value(type),
       "int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, f8e4m3 or f8e5m2")  //
      ("op_reduction,o", po::value(&reduction)->value_name("OP")->default_value(reduction),
       "sum, prod, max, min or avg")  //
      ("algorithm", po::value(&algorithm)->value_name("NAME"),
       "ring, tree, halving-doubling, direct, mesh or auto; default: the scenario's")                               //
      ("protocol", po::value(&protocol)->value_name("NAME"), "simple, ll, ll128 or auto; default: the scenario's")  //
      ("root,r", po::value(&options.root)->value_name("RANK")->default_value(0), "where the operation has one")     //
      ("nthreads,t", po::value(&threads)->value_name("N")->default_value(1), "1: ranks come from the scenario")     //
      ("ngpus,g", po::value(&gpus)->value_name("N")->default_value(1), "1: ranks come from the scenario");
  add_run_options(syntax.options, options.run);
  if (!parse_arguments(arguments, syntax, out)) return std::nullopt;

  options.op = parse_operation(op_text);
  if (!algorithm.empty()) options.run.overrides.push_back("workload.algorithm=" + algorithm);
  if (!protocol.empty()) options.run.overrides.push_back("workload.protocol=" + protocol);
  options.iterations = iterations.value_or(run_world(options.run.world).facts().virtual_time ? 2 : 5);
  options.type = parse_data_type("-d", type);
  options.reduction = parse_reduction("-o", reduction);
  if (models::reduces(options.op) && !is_reducible(options.type)) {
    throw std::runtime_error(fmt::format("-d {}: such numbers are moved, never reduced; {} takes the wider types", type,
                                         models::name_of(options.op)));
  }
  if (threads != 1 || gpus != 1) throw std::runtime_error("-t and -g are 1 here: ranks come from the scenario");
  if (options.iterations < 1) throw std::runtime_error(fmt::format("-n {}: at least 1", options.iterations));
  if (options.warmup < 0) throw std::runtime_error(fmt::format("-w {}: at least 0", options.warmup));
  if (check != 0 && check != 1) throw std::runtime_error(fmt::format("-c {}: 0 or 1", check));
  if (!factor_text.empty() && !step_text.empty()) throw std::runtime_error("-f and -i: the sizes grow by one of them");
  options.check = check != 0;
  options.sweep.min_bytes = parse_size(min_text);
  options.sweep.max_bytes = parse_size(max_text);
  options.sweep.step_bytes = parse_size(step_text.empty() ? "1M" : step_text);
  constexpr std::uint64_t kFactorMax = 1 << 20;
  if (!factor_text.empty()) options.sweep.step_factor = parse_count("-f", factor_text, 2, kFactorMax);
  return options;
}

/// What every rank runs in its node.
std::vector<std::string> rank_words(const Scenario& scenario, const PerfOptions& options) {
  const SweepOptions& sweep = options.sweep;
  std::vector<std::string> words{"perf", models::name_of(options.op), "--scenario",
                                 std::filesystem::absolute(scenario.path).string()};
  const auto add = [&words](const char* name, std::uint64_t value) {
    words.insert(words.end(), {name, std::to_string(value)});
  };
  add("-b", sweep.min_bytes);
  add("-e", sweep.max_bytes);
  sweep.step_factor > 1 ? add("-f", sweep.step_factor) : add("-i", sweep.step_bytes);
  add("-n", static_cast<std::uint64_t>(options.iterations));
  add("-w", static_cast<std::uint64_t>(options.warmup));
  add("-c", options.check ? 1 : 0);
  add("-r", static_cast<std::uint64_t>(options.root));
  words.insert(words.end(), {"-d", name_of(options.type), "-o", name_of(options.reduction)});
  for (const std::string& each : metal_words(options.run)) words.push_back(each);
  if (options.run.json) words.emplace_back("--json");
  return words;
}

/// Rank 0 in its node prints what there is to print.
int perf_in_nodes(const RunWorld& world, const PerfOptions& options, const Scenario& scenario, std::ostream& out,
                  std::ostream& err) {
  const WorldOutcome outcome = world.run(scenario, {.time_limit_s = time_limit_of(options.run),
                                                    .nodes = {.command = rank_words(scenario, options),
                                                              .rank_bytes = 2 * options.sweep.max_bytes,
                                                              .say = say_on(err),
                                                              .collect = {}}});
  const Emulation& emulation = outcome.emulation;
  if (!tell_troubles(emulation, not_taken_lines(scenario, emulation.faults), err)) return kExitInterrupted;
  if (options.run.json && !emulation.report.empty()) {
    auto json = nlohmann::ordered_json::parse(emulation.report);
    json["emu"] = emulation.machines;
    out << json_text(json, kIndent) << "\n";
  } else {
    out << emulation.report;
  }
  say_on(err)(emulation.machines_text);
  return emulation.exit_code;
}

}  // namespace

int perf_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  const std::optional<PerfOptions> options = parse_perf(arguments, out);
  if (!options) return kExitOk;
  refuse_simulated_time_limit(options->run);
  const Scenario scenario = scenario_for(options->run);
  if (scenario.workload.kind == WorkloadKind::kMegakernel) {
    throw std::runtime_error(scenario.path +
                             ": perf calls collectives, and this scenario runs megakernels: meshbed run");
  }
  if (options->root < 0 || options->root >= ranks_of(scenario)) {
    throw std::runtime_error(
        fmt::format("-r {}: the scenario has ranks 0 to {}", options->root, ranks_of(scenario) - 1));
  }
  if (!scenario.cluster.management) {
    throw std::runtime_error(fmt::format(
        "{}: perf's ranks meet over the management network, and [management] enabled is false here; leave it on",
        scenario.path));
  }
  std::vector<SizeRun> runs = plan_sweep(*options, scenario);
  const RunWorld& world = run_world(options->run.world);
  if (world.boots_nodes()) return perf_in_nodes(world, *options, scenario, out, err);

  // Rank 0 speaks for all; the others say what went wrong with them, and nothing else.
  const bool speaks = world.speaks();
  const WorldFacts facts = world.facts();
  if (speaks) (options->run.json ? err : out) << sweep_preamble(*options, scenario, facts) << std::flush;
  if (speaks && facts.faults_by == FaultsBy::kHands) err << left_to_hands_line(scenario);
  const RunResult result = run_sweep(world, *options, scenario, runs, say_on(err));
  if (facts.faults_by == FaultsBy::kSimulator) err << not_taken_lines(scenario, result.simulation.faults);
  if (speaks && options->run.json) {
    out << json_text(sweep_json(*options, scenario, result, runs), kIndent) << "\n";
  } else if (speaks) {
    if (result.simulation.ended_well()) out << sweep_table(*options, result, runs);
    out << sweep_closing(result) << std::flush;
  }
  const int status = !speaks && result.simulation.ended_well() ? kExitOk : exit_status(result);
  if (status != kExitOk) err << "meshbed: " << failure_line(result) << "\n";
  return status;
}

}  // namespace meshbed::cli

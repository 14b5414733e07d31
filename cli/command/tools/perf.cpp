#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string_view>

#include "cli/bench/perf_flags.h"
#include "cli/bench/perf_format.h"
#include "cli/bench/perf_sweep.h"
#include "cli/command/commands.h"
#include "cli/common/run_options.h"
#include "testbed/base/closest_name.h"
#include "testbed/base/diagnostics.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/interruption.h"
#include "testbed/base/json_text.h"
#include "testbed/result/verdict.h"
#include "testbed/scenario/placement.h"
#include "testbed/world/world.h"

namespace meshbed::testbed {
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

/// nccl-tests' order of types and reductions is ours.
void take_types(PerfOptions& options) {
  const bool reduces = models::reduces(options.op);
  options.types.clear();
  if (options.type_text != "all") {
    options.types.push_back(parse_data_type("-d", options.type_text));
    if (reduces && !is_reducible(options.types.front())) {
      throw std::runtime_error(fmt::format("-d {}: such numbers are moved, never reduced; {} takes the wider types",
                                           options.type_text, models::name_of(options.op)));
    }
    return;
  }
  std::vector<std::string> left_out;
  for (const std::string& name : data_type_names()) {
    const coll::DataType type = parse_data_type("-d", name);
    if (reduces && !is_reducible(type)) {
      left_out.push_back(name);
    } else {
      options.types.push_back(type);
    }
  }
  if (!left_out.empty()) {
    options.notes.push_back(
        fmt::format("-d all leaves out {}, which are moved, never reduced", fmt::join(left_out, " and ")));
  }
}

void take_reductions(PerfOptions& options) {
  if (options.reduction_text != "all") {
    options.reductions = {parse_reduction("-o", options.reduction_text)};
    return;
  }
  if (!models::reduces(options.op)) {
    options.notes.push_back(fmt::format("-o all is one sweep: {} does not reduce", models::name_of(options.op)));
    return;
  }
  options.reductions.clear();
  for (const std::string& name : reduction_names()) options.reductions.push_back(parse_reduction("-o", name));
  options.notes.emplace_back(
      "-o all leaves out mulsum: a sum with a factor for each rank is not an operation of the engine");
}

/// After the scenario is read, which says how many there are.
void take_roots(PerfOptions& options, int ranks) {
  options.roots.clear();
  if (options.root_text == "all" || options.root_text == "-1") {
    const int count = models::has_root(options.op) ? ranks : 1;
    for (int root = 0; root < count; ++root) options.roots.push_back(root);
    if (count < ranks) {
      options.notes.push_back(
          fmt::format("-r {} is one sweep: {} has no root", options.root_text, models::name_of(options.op)));
    }
    return;
  }
  const bool digits = !options.root_text.empty() && options.root_text.size() <= 6 &&
                      options.root_text.find_first_not_of("0123456789") == std::string::npos;
  const int root = digits ? std::stoi(options.root_text) : -1;
  if (root < 0 || root >= ranks) {
    throw std::runtime_error(
        fmt::format("-r {}: the scenario has ranks 0 to {}; -1 or all: each of them", options.root_text, ranks - 1));
  }
  options.roots.push_back(root);
}

/// -z, -m and -G, whose combinations are nccl-tests': a graph holds no waits, so its iterations are queued.
void take_pacing(PerfOptions& options, const std::optional<int>& blocking, const std::string& operations) {
  using Wait = Pacing::Wait;
  constexpr std::uint64_t kOperationsMax = 100'000;
  options.pacing.operations = static_cast<int>(parse_count("-m", operations, 1, kOperationsMax));
  if (blocking && (*blocking < 0 || *blocking > 3)) {
    throw std::runtime_error(fmt::format("-z {}: 0, 1, 2 or 3", *blocking));
  }
  constexpr Wait kWaits[] = {Wait::kQueued, Wait::kBarrier, Wait::kOwn, Wait::kTogether};
  options.pacing.wait = kWaits[blocking.value_or(3)];
  constexpr int kLaunchesMax = 100'000;
  if (options.graph_launches < 0 || options.graph_launches > kLaunchesMax) {
    throw std::runtime_error(fmt::format("-G {}: 0 to {}", options.graph_launches, kLaunchesMax));
  }
  if (options.graph_launches == 0) return;
  if (blocking.value_or(0) != 0) {
    throw std::runtime_error(
        fmt::format("-z {} with -G {}: a graph's operations follow each other without a wait; "
                    "leave one of them out",
                    *blocking, options.graph_launches));
  }
  options.pacing.wait = Wait::kQueued;
  options.pacing.launches = options.graph_launches;
}

/// Each has its time and its line of memory.
void refuse_too_many(const PerfOptions& options) {
  constexpr std::int64_t kOperationsMax = 10'000'000;
  const std::int64_t launched = std::int64_t{options.iterations} * std::max(options.graph_launches, 1);
  // Not multiplied at once: the product of all three might not fit.
  if (launched <= kOperationsMax && launched * options.pacing.operations <= kOperationsMax) return;
  throw std::runtime_error(fmt::format("-n {} -G {} -m {}: together more than {} operations of a size",
                                       options.iterations, options.graph_launches, options.pacing.operations,
                                       kOperationsMax));
}

std::optional<PerfOptions> parse_perf(const Arguments& arguments, std::ostream& out) {
  PerfOptions options;
  std::string op_text, min_text = "32M", max_text = "32M", step_text, factor_text;
  std::string algorithm, protocol, cycles = "1", operations = "1";
  std::optional<int> iterations, blocking;
  int threads = 1, gpus = 1, registered = 0, per_iteration = 0, skip = 0;
  PerfFlags foreign;
  Syntax syntax("perf OP --scenario FILE [options]", "options (nccl-tests' names)");
  syntax.operands.add_options()("operation", po::value(&op_text)->required()->value_name("OP"),
                                (list_names(models::collective_names()) + "; OP_perf too").c_str());
  syntax.positions.add("operation", 1);
  syntax.options.add_options()                                                                                //
      ("scenario", po::value(&options.run.scenario_path)->required()->value_name("FILE"), "where to run it")  //
      ("minbytes,b", po::value(&min_text)->value_name("SIZE")->default_value(min_text),
       "smallest; 8, 64K, 1.5M, 6.9G")                                                                     //
      ("maxbytes,e", po::value(&max_text)->value_name("SIZE")->default_value(max_text), "largest")         //
      ("stepfactor,f", po::value(&factor_text)->value_name("N"), "multiply the size by this, at least 2")  //
      ("stepbytes,i", po::value(&step_text)->value_name("SIZE"), "or add this; without either: 1M")        //
      ("iters,n", po::value<int>()->value_name("N")->notifier([&iterations](int count) { iterations = count; }),
       "timed iterations; default: 2 in virtual time, which repeats exactly, else 5")  //
      ("warmup_iters,w", po::value(&options.warmup)->value_name("N")->default_value(options.warmup),
       "iterations before, of the largest and the smallest size")  //
      ("agg_iters,m", po::value(&operations)->value_name("N")->default_value("1"),
       "operations of one iteration, started at once; a time is one operation's")                              //
      ("run_cycles,N", po::value(&cycles)->value_name("N")->default_value("1"), "the list of sizes so often")  //
      ("blocking,z", po::value<int>()->value_name("0-3")->notifier([&blocking](int value) { blocking = value; }),
       "0: all iterations are started at once; 1: ranks wait for each operation and for each other; 2: for each "
       "operation; 3 (default): for each iteration and each other, which the time leaves out")  //
      ("cudagraph,G", po::value(&options.graph_launches)->value_name("N")->default_value(0),
       "all iterations again, N times without a wait in between, as launches of a captured graph follow each other")  //
      ("check,c", po::value(&options.checks)->value_name("N")->default_value(1),
       "0: nothing is checked; else every iteration is, or, with -m, -z and -G, N more of each size after its time")  //
      ("datatype,d", po::value(&options.type_text)->value_name("TYPE")->default_value("float"),
       "int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, f8e4m3, f8e5m2 or all")  //
      ("op,o", po::value(&options.reduction_text)->value_name("OP")->default_value("sum"),
       "sum, prod, max, min, avg or all")  //
      ("local_register,R", po::value(&registered)->value_name("0|1")->default_value(0),
       "1: buffers are registered once, before the first operation")  //
      ("per_iter_timing,I", po::value(&per_iteration)->value_name("0|1")->default_value(0),
       "1: columns with the fastest, slowest and 99th percentile iteration, and their deviation")             //
      ("per_iter_skip,K", po::value(&skip)->value_name("N")->default_value(0), "of -I, without the first N")  //
      ("output_file,J", po::value(&options.json_path)->value_name("FILE.json"),
       "write nccl-tests' JSON (version 3); where the file is there, FILE.json.0")  //
      ("plot", po::value(&options.plot)->value_name("FILE.svg|png"),
       "also draw bus bandwidth over sizes")  //
      ("algorithm", po::value(&algorithm)->value_name("NAME"),
       "ring, tree, halving-doubling, direct, mesh, torus or auto; default: the scenario's")                        //
      ("protocol", po::value(&protocol)->value_name("NAME"), "simple, ll, ll128 or auto; default: the scenario's")  //
      ("root,r", po::value(&options.root_text)->value_name("RANK")->default_value("0"),
       "where the operation has one; -1 or all: each")                                                           //
      ("nthreads,t", po::value(&threads)->value_name("N")->default_value(1), "1: ranks come from the scenario")  //
      ("ngpus,g", po::value(&gpus)->value_name("N")->default_value(1), "1: ranks come from the scenario");
  foreign.add_to(syntax.options);
  add_run_options(syntax.options, options.run);
  if (!parse_arguments(arguments, syntax, out)) return std::nullopt;

  options.op = parse_operation(op_text);
  if (!options.plot.empty()) require_plot_file("--plot", options.plot);
  if (!algorithm.empty()) options.run.overrides.push_back("workload.algorithm=" + algorithm);
  if (!protocol.empty()) options.run.overrides.push_back("workload.protocol=" + protocol);
  options.iterations = iterations.value_or(run_world(options.run.world).facts().virtual_time ? 2 : 5);
  options.notes = foreign.notes();
  take_types(options);
  take_reductions(options);
  if (options.iterations < 1) throw std::runtime_error(fmt::format("-n {}: at least 1", options.iterations));
  take_pacing(options, blocking, operations);
  refuse_too_many(options);
  if (registered != 0 && registered != 1) {
    throw std::runtime_error(fmt::format(
        "-R {}: 0 or 1; symmetric windows (2) are for kernels that write into each other's memory, and perf has none",
        registered));
  }
  options.registered = registered == 1;
  if (per_iteration != 0 && per_iteration != 1) throw std::runtime_error(fmt::format("-I {}: 0 or 1", per_iteration));
  if (skip < 0 || skip >= options.iterations) {
    throw std::runtime_error(fmt::format("-K {}: less than the {} of -n", skip, options.iterations));
  }
  if (skip > 0 && per_iteration == 0) throw std::runtime_error("-K leaves iterations out of -I 1, which is not given");
  if (per_iteration == 1) options.per_iteration = skip;
  if (threads != 1 || gpus != 1) throw std::runtime_error("-t and -g are 1 here: ranks come from the scenario");
  if (options.warmup < 0) throw std::runtime_error(fmt::format("-w {}: at least 0", options.warmup));
  if (options.checks < 0) throw std::runtime_error(fmt::format("-c {}: at least 0", options.checks));
  if (!factor_text.empty() && !step_text.empty()) throw std::runtime_error("-f and -i: the sizes grow by one of them");
  constexpr std::uint64_t kCyclesMax = 10'000;
  if (cycles == "0") throw std::runtime_error("-N 0: cycles without end would never come to a digest; at least 1");
  options.cycles = static_cast<int>(parse_count("-N", cycles, 1, kCyclesMax));
  options.sweep.min_bytes = parse_size(min_text);
  options.sweep.max_bytes = parse_size(max_text);
  options.sweep.step_bytes = parse_size(step_text.empty() ? "1M" : step_text);
  constexpr std::uint64_t kFactorMax = 1 << 20;
  if (!factor_text.empty()) options.sweep.step_factor = parse_count("-f", factor_text, 2, kFactorMax);
  return options;
}

constexpr const char* kNodeJson = "perf.json";  // in a node's folder

/// What -z calls it.
std::uint64_t blocking_of(Pacing::Wait wait) {
  switch (wait) {
    case Pacing::Wait::kQueued:
      return 0;
    case Pacing::Wait::kBarrier:
      return 1;
    case Pacing::Wait::kOwn:
      return 2;
    case Pacing::Wait::kTogether:
      break;
  }
  return 3;
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
  add("-c", static_cast<std::uint64_t>(options.checks));
  add("-N", static_cast<std::uint64_t>(options.cycles));
  add("-m", static_cast<std::uint64_t>(options.pacing.operations));
  add("-G", static_cast<std::uint64_t>(options.graph_launches));
  add("-R", options.registered ? 1 : 0);
  if (options.graph_launches == 0) add("-z", blocking_of(options.pacing.wait));
  if (options.per_iteration) {
    add("-I", 1);
    add("-K", static_cast<std::uint64_t>(*options.per_iteration));
  }
  words.insert(words.end(), {"-r", options.root_text, "-d", options.type_text, "-o", options.reduction_text});
  if (!options.json_path.empty()) words.insert(words.end(), {"-J", kNodeJson});
  for (const std::string& each : metal_words(options.run)) words.push_back(each);
  if (options.run.json) words.emplace_back("--json");
  return words;
}

/// Rank 0 in its node prints what there is to print.
int perf_in_nodes(const RunWorld& world, const PerfOptions& options, const Scenario& scenario,
                  std::optional<PerfJsonFile>& json_file, std::ostream& out, std::ostream& err) {
  const auto collect = [&json_file](const std::string& node_folder) {
    const std::string written = node_folder + "/" + kNodeJson;
    if (json_file && std::filesystem::exists(written)) json_file->take(read_text_file(written));
  };
  const WorldOutcome outcome = world.run(scenario, {.time_limit_s = time_limit_of(options.run),
                                                    .nodes = {.command = rank_words(scenario, options),
                                                              .rank_bytes = 2 * options.sweep.max_bytes,
                                                              .say = say_on(err),
                                                              .collect = collect}});
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

/// The scenario with the collective of the sweep as its workload.
Scenario as_swept(const PerfOptions& options, const Scenario& scenario) {
  Scenario swept = scenario;
  swept.workload.kind = WorkloadKind::kCollective;
  swept.workload.collective = models::name_of(options.op);
  return swept;
}

}  // namespace

int perf_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  std::optional<PerfOptions> options = parse_perf(arguments, out);
  if (!options) return kExitOk;
  refuse_simulated_time_limit(options->run);
  Scenario scenario = scenario_for(options->run);
  if (scenario.workload.kind == WorkloadKind::kMegakernel) {
    throw std::runtime_error(scenario.path +
                             ": perf calls collectives, and this scenario runs megakernels: meshbed run");
  }
  take_roots(*options, ranks_of(scenario));
  if (scenario.workload.gpu_memory) {
    scenario.workload.gpu_memory = false;
    options->notes.emplace_back("memory = \"gpu\" is passed over: perf's buffers are host memory");
  }
  if (scenario.workload.shared_data) {
    options->notes.emplace_back("data = \"shared\" is passed over: perf's ranks have buffers of their own");
  }
  if (!scenario.cluster.management) {
    throw std::runtime_error(fmt::format(
        "{}: perf's ranks meet over the management network, and [management] enabled is false here; leave it on",
        scenario.path));
  }
  std::vector<SizeRun> runs = plan_sweep(*options, scenario);
  const RunWorld& world = run_world(options->run.world);
  if (world.speaks()) report_findings(as_swept(*options, scenario), world, err);
  if (!options->plot.empty() && world.boots_nodes()) {
    throw std::runtime_error("--plot: not from emulated nodes; plot what -J writes there");
  }
  std::optional<PerfJsonFile> json_file;
  if (!options->json_path.empty() && world.speaks()) {
    json_file.emplace(options->json_path);
    // A rank in an emulated node writes for its host, which has said where.
    const bool for_host = !world.boots_nodes() && world.facts().faults_by == FaultsBy::kEmulator;
    if (!for_host) (options->run.json ? err : out) << "# Writing JSON output to " << json_file->path() << "\n";
  }
  if (world.boots_nodes()) return perf_in_nodes(world, *options, scenario, json_file, out, err);

  // Rank 0 reports for all; the others report only their errors.
  const bool speaks = world.speaks();
  const WorldFacts facts = world.facts();
  if (speaks) (options->run.json ? err : out) << sweep_preamble(*options, scenario, facts) << std::flush;
  if (speaks && facts.faults_by == FaultsBy::kHands) err << left_to_hands_line(scenario);
  SweepListener listener{.row = {}, .say = say_on(err)};
  const bool prints_rows = speaks && !options->run.json;
  std::optional<Interruption> interruption;
  if (facts.virtual_time) {
    interruption.emplace("sizes", prints_rows ? "the rows above stay" : "nothing is kept");
    if (prints_rows) out << sweep_heading(*options) << std::flush;
    if (prints_rows)
      listener.row = [&](const SizeRun& run) { out << sweep_row(*options, scenario, run) << std::flush; };
  }
  const RunResult result = run_sweep(world, *options, scenario, runs, listener);
  interruption.reset();
  if (facts.faults_by == FaultsBy::kSimulator) err << not_taken_lines(scenario, result.simulation.faults);
  if (speaks && options->run.json) {
    out << json_text(sweep_json(scenario, result, runs), kIndent) << "\n";
  } else if (speaks) {
    if (result.simulation.ended_well()) {
      if (!facts.virtual_time) {
        out << sweep_heading(*options);
        for (const SizeRun& run : runs) out << sweep_row(*options, scenario, run);
      }
      out << sweep_findings(scenario, result, runs);
    }
    out << sweep_closing(result) << std::flush;
  }
  if (json_file) {
    std::vector<std::string> command_line{"meshbed", "perf"};
    command_line.insert(command_line.end(), arguments.begin(), arguments.end());
    json_file->write(*options, scenario, result, runs, command_line);
  }
  if (speaks && !options->plot.empty()) {
    write_plot("--plot", options->plot, perf_plot(*options, scenario, result, runs));
  }
  const int status = !speaks && result.simulation.ended_well() ? kExitOk : exit_status(result);
  if (status != kExitOk) err << "meshbed: " << failure_line(result) << "\n";
  return status;
}

}  // namespace meshbed::testbed

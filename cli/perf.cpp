#include "cli/perf.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>

#include "cli/bounds.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/workload.h"

namespace meshbed::cli {
namespace {

namespace po = boost::program_options;

struct Options {
  RunOptions run;
  std::string op_name;
  SweepOptions sweep;
  int iterations = 2;
  int warmup = 1;
  bool check = true;
  int root = 0;
  models::Collective op = models::Collective::kAllReduce;
};

/// One size: what it comes to, and both ways of placing it.
struct SizeRun {
  CollectiveShape shape;
  CollectiveCase out_of_place, in_place;
  CaseBoard out_of_place_board, in_place_board;
};

std::optional<Options> parse(const Arguments& arguments, std::ostream& out) {
  Options options;
  std::string min_text = "32M", max_text = "32M", step_text = "1M", type = "float", reduction = "sum";
  int check = 1, threads = 1, gpus = 1;
  po::options_description described("options (nccl-tests' names)");
  described.add_options()  //
      ("op", po::value(&options.op_name)->required()->value_name("OP"),
       "all_reduce all_gather reduce_scatter broadcast sendrecv; OP_perf means the same")                     //
      ("scenario", po::value(&options.run.scenario_path)->required()->value_name("FILE"), "where to run it")  //
      ("minbytes,b", po::value(&min_text)->default_value(min_text), "smallest size; K, M, G")                 //
      ("maxbytes,e", po::value(&max_text)->default_value(max_text), "largest size")                           //
      ("stepfactor,f", po::value(&options.sweep.step_factor)->default_value(1), "multiply the size by this")  //
      ("stepbytes,i", po::value(&step_text)->default_value(step_text), "or add this to it")                   //
      ("iters,n", po::value(&options.iterations)->default_value(options.iterations),
       "timed iterations; virtual time repeats exactly, so 2 show all that 20 would")  //
      ("warmup_iters,w", po::value(&options.warmup)->default_value(options.warmup),
       "iterations before, of the largest and the smallest size")                               //
      ("check,c", po::value(&check)->default_value(1), "check every iteration; 0: never")       //
      ("datatype,d", po::value(&type)->default_value(type), "float")                            //
      ("op_reduction,o", po::value(&reduction)->default_value(reduction), "sum")                //
      ("root,r", po::value(&options.root)->default_value(0), "of a broadcast")                  //
      ("nthreads,t", po::value(&threads)->default_value(1), "1: ranks come from the scenario")  //
      ("ngpus,g", po::value(&gpus)->default_value(1), "1: ranks come from the scenario");
  add_run_options(described, options.run);
  add_help(described);
  po::positional_options_description positional;
  positional.add("op", 1);
  if (!parse_arguments(arguments, "perf OP --scenario FILE [options]", described, positional, out)) return std::nullopt;

  std::string name = options.op_name;
  if (const auto suffix = name.rfind("_perf"); suffix != std::string::npos && suffix + 5 == name.size()) {
    name.resize(suffix);
  }
  const auto op = models::parse_collective(name);
  if (!op) {
    throw std::runtime_error("no operation \"" + options.op_name +
                             "\": all_reduce, all_gather, reduce_scatter, broadcast or sendrecv");
  }
  if (type != "float") throw std::runtime_error("no data type \"" + type + "\": float");
  if (reduction != "sum") throw std::runtime_error("no reduction \"" + reduction + "\": sum");
  if (threads != 1 || gpus != 1) throw std::runtime_error("-t and -g are 1 here: ranks come from the scenario");
  if (options.iterations < 1 || options.warmup < 0) throw std::runtime_error("-n is at least 1, -w at least 0");
  options.op = *op;
  options.check = check != 0;
  options.sweep.min_bytes = parse_size(min_text);
  options.sweep.max_bytes = parse_size(max_text);
  options.sweep.step_bytes = parse_size(step_text);
  return options;
}

CollectiveCase case_of(const Options& options, const Scenario& scenario, std::uint64_t bytes, bool in_place) {
  return {.op = options.op,
          .bytes = bytes,
          .in_place = in_place,
          .iterations = options.iterations,
          .check = options.check,
          .root = options.root,
          .shift = scenario.workload.shift};
}

/// The whole sweep on one rank, in the order of nccl-tests: warm-up with the largest and the smallest size, then each.
Result<void> run_rank(RankHost& host, CollectiveBuffers& buffers, const EngineOptions& engine_options, int warmup,
                      std::vector<SizeRun>& runs, Progress& progress) {
  Result<Engine> engine = Engine::open(host, engine_options);
  if (!engine) return engine.error();
  std::uint32_t salt = 1;
  const auto run = [&](CollectiveCase wanted, CaseBoard& board) {
    return run_case(host, *engine, buffers, wanted, salt++, board);
  };
  for (const SizeRun* size : {&runs.back(), &runs.front()}) {
    CollectiveCase warm = size->out_of_place;
    warm.iterations = warmup;
    CaseBoard unread;
    if (const Result<void> done = run(warm, unread); !done) return done;
  }
  for (SizeRun& size : runs) {
    if (const Result<void> done = run(size.out_of_place, size.out_of_place_board); !done) return done;
    if (const Result<void> done = run(size.in_place, size.in_place_board); !done) return done;
    if (host.rank() == 0) progress.step();
  }
  if (const Result<void> all = host.rendezvous(); !all) return all;
  return engine->close();
}

std::string preamble(const Options& options, const Scenario& scenario) {
  const SweepOptions& sweep = options.sweep;
  std::string text = fmt::format(
      "# seed {}  scenario {}  world sim\n# {}\n# nThread 1 nGpus 1 minBytes {} maxBytes {} step: {}({}) warmup iters: "
      "{} iters: {} agg iters: 1 validation: {} graph: 0 unalign: 0\n#\n# Using devices\n",
      scenario.seed, scenario.name, topology_line(scenario), sweep.min_bytes, sweep.max_bytes,
      sweep.step_factor > 1 ? sweep.step_factor : sweep.step_bytes, sweep.step_factor > 1 ? "factor" : "bytes",
      options.warmup, options.iterations, options.check ? 1 : 0);
  constexpr int kRanksShown = 16;
  for (int rank = 0; rank < std::min(ranks_of(scenario), kRanksShown); ++rank) {
    const models::Node& node = scenario.cluster.nodes[static_cast<std::size_t>(node_of(scenario, rank))];
    text += fmt::format("#  Rank {:>2} on {:>10} with {} NICs\n", rank, node.name, node.nics.size());
  }
  if (ranks_of(scenario) > kRanksShown) text += fmt::format("#  ... and {} more\n", ranks_of(scenario) - kRanksShown);
  return text;
}

/// Proofs over the whole sweep: each size against its bounds, all data, and what holds for every run.
void prove(RunResult& result, const Options& options, const Scenario& scenario, const BuiltFiles& files,
           const std::vector<SizeRun>& runs, const BoundTable& bounds) {
  result.proofs.push_back({"no size beats its bound", true, fmt::format("{} sizes, both placements", runs.size())});
  sim::Proof& bound_proof = result.proofs.back();
  for (const SizeRun& run : runs) {
    const Bounds bound = bounds.of(options.op, run.shape.bytes, options.root, run.in_place.shift);
    for (const CaseBoard* board : {&run.out_of_place_board, &run.in_place_board}) {
      const sim::Proof proof = sim::bound_kept(fmt::format("{} bytes", run.shape.bytes), board->fastest_ps(),
                                               std::max(bound.ring_ps, bound.any_algorithm_ps));
      if (!proof.ok && bound_proof.ok) bound_proof = {bound_proof.name, false, proof.name + ": " + proof.detail};
      result.wrong += board->wrong;
      result.checked += board->checked;
      if (result.first_wrong.empty()) result.first_wrong = board->first_wrong;
    }
  }
  result.proofs.push_back(
      sim::data_right(result.wrong, result.checked, options.check && runs.back().shape.recv_count > 0));
  add_common_proofs(result, scenario, files);
}

nlohmann::ordered_json placement_json(const CollectiveShape& shape, const CaseBoard& board, double bus_factor) {
  const auto time_ps = static_cast<double>(board.average_ps());
  const double algbw_GBps = time_ps > 0 ? static_cast<double>(shape.bytes) / time_ps * 1e3 : 0;
  return {{"time_ns", time_ps / 1e3},
          {"algbw_GBps", algbw_GBps},
          {"busbw_GBps", algbw_GBps * bus_factor},
          {"wrong", board.wrong}};
}

nlohmann::ordered_json to_json(const Options& options, const Scenario& scenario, const RunResult& result,
                               const std::vector<SizeRun>& runs) {
  nlohmann::ordered_json json = summary(scenario, result);
  json["rows"] = nlohmann::ordered_json::array();
  for (const SizeRun& run : runs) {
    json["rows"].push_back({{"size", run.shape.bytes},
                            {"count", run.shape.count},
                            {"type", "float"},
                            {"root", options.root},
                            {"out_of_place", placement_json(run.shape, run.out_of_place_board, result.busbw_factor)},
                            {"in_place", placement_json(run.shape, run.in_place_board, result.busbw_factor)}});
  }
  return json;
}

double average_busbw(const std::vector<SizeRun>& runs, double bus_factor) {
  double sum = 0;
  for (const SizeRun& run : runs) {
    for (const CaseBoard* board : {&run.out_of_place_board, &run.in_place_board}) {
      const auto time_ps = static_cast<double>(board->average_ps());
      if (time_ps > 0) sum += static_cast<double>(run.shape.bytes) / time_ps * 1e3 * bus_factor;
    }
  }
  return sum / (2.0 * static_cast<double>(runs.size()));
}

std::vector<SizeRun> plan(const Options& options, const Scenario& scenario) {
  std::vector<SizeRun> runs;
  for (const std::uint64_t bytes : sweep_sizes(options.sweep)) {
    SizeRun run;
    run.shape = shape_of(options.op, bytes, ranks_of(scenario));
    run.out_of_place = case_of(options, scenario, bytes, false);
    run.in_place = case_of(options, scenario, bytes, true);
    runs.push_back(std::move(run));
  }
  return runs;
}

/// Runs and proves the sweep; fills the boards of `runs`.
RunResult run_sweep(const Options& options, const Scenario& scenario, std::vector<SizeRun>& runs) {
  const SimulateOptions simulate_options{.files = built_files(), .contexts = options.run.contexts};
  const EngineOptions engine = engine_options(scenario, simulate_options.files);
  sim::Recorder recorder(scenario.cluster, "");
  std::vector<CollectiveBuffers> buffers = buffers_for(ranks_of(scenario), runs.back().in_place.bytes, true);
  RunResult result;
  {
    Progress progress(options.op_name, static_cast<int>(runs.size()));
    result.simulation = simulate(scenario, simulate_options, recorder, [&](RankHost& host) {
      return run_rank(host, buffers[static_cast<std::size_t>(host.rank())], engine, options.warmup, runs, progress);
    });
  }
  result.workload = models::name_of(options.op);
  result.bytes = runs.back().shape.bytes;
  result.iterations = options.iterations;
  result.time_ps = runs.back().in_place_board.average_ps();
  result.busbw_factor = models::bus_factor(options.op, ranks_of(scenario));
  result.pairs = recorder.pairs();
  result.messages = recorder.totals();
  result.connections = recorder.connections();
  if (exit_status(result) == kExitOk) {
    prove(result, options, scenario, simulate_options.files, runs,
          BoundTable(scenario, result.simulation, result.pairs));
  }
  for (const SizeRun& run : runs) {
    for (const CaseBoard* board : {&run.out_of_place_board, &run.in_place_board}) {
      recorder.digest().add(static_cast<std::uint64_t>(board->total_ps()));
      recorder.digest().add(board->wrong);
    }
  }
  result.digest = recorder.digest().hex();
  add_process_usage(result);
  return result;
}

std::string table(const Options& options, const RunResult& result, const std::vector<SizeRun>& runs) {
  std::string text = perf_heading();
  for (const SizeRun& run : runs) {
    text += perf_row(options.op, run.shape, options.root, run.out_of_place_board, run.in_place_board,
                     result.busbw_factor, options.check);
  }
  text +=
      fmt::format("# {:<20} : {} {}\n# {:<20} : {:g} \n#\n", "Out of bounds values", result.wrong,
                  result.wrong == 0 ? "OK" : "FAILED", "Avg bus bandwidth", average_busbw(runs, result.busbw_factor));
  for (const sim::Proof& proof : result.proofs) {
    text += fmt::format("# proof {} {}: {}\n", proof.ok ? "ok" : "BROKEN", proof.name, proof.detail);
  }
  return text + fmt::format("# {:.2f} CPU s\n# digest {}\n", result.cpu_s, result.digest);
}

}  // namespace

int perf_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  const std::optional<Options> options = parse(arguments, out);
  if (!options) return kExitOk;
  const Scenario scenario = scenario_for(options->run);
  if (options->root < 0 || options->root >= ranks_of(scenario)) {
    throw std::runtime_error(
        fmt::format("-r {}: the scenario has ranks 0 to {}", options->root, ranks_of(scenario) - 1));
  }
  std::vector<SizeRun> runs = plan(*options, scenario);
  (options->run.json ? err : out) << preamble(*options, scenario) << std::flush;

  RunResult result = run_sweep(*options, scenario, runs);
  const Simulation& simulation = result.simulation;
  if (options->run.json) {
    out << to_json(*options, scenario, result, runs).dump(2) << "\n";
  } else if (simulation.errors.empty() && simulation.outcome.kind == sim::OutcomeKind::kFinished) {
    out << table(*options, result, runs);
  }
  const int status = exit_status(result);
  if (status != kExitOk) err << "meshbed: " << failure_line(result) << "\n";
  return status;
}

}  // namespace meshbed::cli

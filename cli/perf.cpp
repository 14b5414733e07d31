#include "cli/perf.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>
#include <string_view>

#include "cli/bounds.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/scenario_diagnostics.h"
#include "cli/scenario_units.h"
#include "cli/workload.h"

namespace meshbed::cli {
namespace {

namespace po = boost::program_options;

struct Options {
  RunOptions run;
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
  Picoseconds bound_ps = 0;  // no iteration can be faster; 0: nothing is known
};

/// The operation, with or without nccl-tests' "_perf" behind its name.
models::Collective parse_operation(const std::string& text) {
  constexpr std::string_view kSuffix = "_perf";
  std::string name = text;
  if (const auto at = name.rfind(kSuffix); at != std::string::npos && at + kSuffix.size() == name.size()) {
    name.resize(at);
  }
  if (const auto op = models::parse_collective(name)) return *op;
  const std::vector<std::string> accepted{"all_reduce", "all_gather", "reduce_scatter", "broadcast", "sendrecv"};
  const std::string close = closest_name(name, accepted);
  throw std::runtime_error(fmt::format("perf: there is no operation \"{}\"{}; accepted: {}", text,
                                       close.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", close),
                                       list_names(accepted)));
}

std::optional<Options> parse(const Arguments& arguments, std::ostream& out) {
  Options options;
  std::string op_text, min_text = "32M", max_text = "32M", step_text, factor_text, type = "float", reduction = "sum";
  int check = 1, threads = 1, gpus = 1;
  Syntax syntax("perf OP --scenario FILE [options]", "options (nccl-tests' names)");
  syntax.operands.add_options()("op", po::value(&op_text)->required()->value_name("OP"),
                                "all_reduce, all_gather, reduce_scatter, broadcast or sendrecv; OP_perf is the same");
  syntax.positions.add("op", 1);
  syntax.options.add_options()                                                                                //
      ("scenario", po::value(&options.run.scenario_path)->required()->value_name("FILE"), "where to run it")  //
      ("minbytes,b", po::value(&min_text)->value_name("SIZE")->default_value(min_text), "smallest; K, M, G")  //
      ("maxbytes,e", po::value(&max_text)->value_name("SIZE")->default_value(max_text), "largest")            //
      ("stepfactor,f", po::value(&factor_text)->value_name("N"), "multiply the size by this, at least 2")     //
      ("stepbytes,i", po::value(&step_text)->value_name("SIZE"), "or add this; without either: 1M")           //
      ("iters,n", po::value(&options.iterations)->value_name("N")->default_value(options.iterations),
       "timed iterations; virtual time repeats exactly, so 2 show all that 20 would")  //
      ("warmup_iters,w", po::value(&options.warmup)->value_name("N")->default_value(options.warmup),
       "iterations before, of the largest and the smallest size")                                                //
      ("check,c", po::value(&check)->value_name("0|1")->default_value(1), "check every iteration; 0: never")     //
      ("datatype,d", po::value(&type)->value_name("TYPE")->default_value(type), "float")                         //
      ("op_reduction,o", po::value(&reduction)->value_name("OP")->default_value(reduction), "sum")               //
      ("root,r", po::value(&options.root)->value_name("RANK")->default_value(0), "of a broadcast")               //
      ("nthreads,t", po::value(&threads)->value_name("N")->default_value(1), "1: ranks come from the scenario")  //
      ("ngpus,g", po::value(&gpus)->value_name("N")->default_value(1), "1: ranks come from the scenario");
  add_run_options(syntax.options, options.run);
  if (!parse_arguments(arguments, syntax, out)) return std::nullopt;

  options.op = parse_operation(op_text);
  if (type != "float") throw std::runtime_error("-d " + type + ": there is no such data type; accepted: float");
  if (reduction != "sum") throw std::runtime_error("-o " + reduction + ": there is no such reduction; accepted: sum");
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
                      std::uint32_t salt, std::vector<SizeRun>& runs, Progress& progress) {
  Result<Engine> engine = Engine::open(host, engine_options);
  if (!engine) return engine.error();
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
      "# seed {}  scenario {}  world sim\n# {}, fabric {}\n# nThread 1 nGpus 1 minBytes {} maxBytes {} step: {}({}) "
      "warmup iters: "
      "{} iters: {} agg iters: 1 validation: {} graph: 0 unalign: 0\n#\n# Using devices\n",
      scenario.seed, scenario.name, topology_line(scenario), fabric_name(scenario), sweep.min_bytes, sweep.max_bytes,
      sweep.step_factor > 1 ? sweep.step_factor : sweep.step_bytes, sweep.step_factor > 1 ? "factor" : "bytes",
      options.warmup, options.iterations, options.check ? 1 : 0);
  constexpr int kRanksShown = 16;
  for (int rank = 0; rank < std::min(ranks_of(scenario), kRanksShown); ++rank) {
    const models::Node& node = scenario.cluster.nodes[static_cast<std::size_t>(node_of(scenario, rank))];
    text += fmt::format("#  Rank {:>2} on {:>10} with {}\n", rank, node.name, counted(node.nics.size(), "NIC"));
  }
  if (ranks_of(scenario) > kRanksShown) text += fmt::format("#  ... and {} more\n", ranks_of(scenario) - kRanksShown);
  return text;
}

/// Proofs over the whole sweep: each size against its bounds, all data, and what holds for every run.
void prove(RunResult& result, const Options& options, const Scenario& scenario, const BuiltFiles& files,
           std::vector<SizeRun>& runs, const BoundTable& bounds) {
  const char* const name = "no size beats its bound";
  std::size_t bounded = 0;
  std::optional<sim::Proof> broken;
  for (SizeRun& run : runs) {
    const Bounds bound = bounds.of(options.op, run.shape.bytes, options.root, run.in_place.shift);
    run.bound_ps = std::max(bound.ring.time_ps, bound.any_algorithm_ps);
    bounded += run.bound_ps > 0 ? 1 : 0;
    for (const CaseBoard* board : {&run.out_of_place_board, &run.in_place_board}) {
      const sim::Proof proof =
          sim::bound_kept(fmt::format("{} bytes", run.shape.bytes), board->fastest_ps(), run.bound_ps);
      if (!proof.ok && !broken) broken = {name, false, proof.name + ": " + proof.detail};
    }
  }
  result.bound_ps = runs.back().bound_ps;
  if (broken) {
    result.proofs.push_back(*broken);
  } else if (bounded == 0) {
    result.proofs.push_back(sim::nothing_to_check(name, "the closed forms give no bound here"));
  } else {
    result.proofs.push_back({name, true, fmt::format("{}, both placements", counted(bounded, "size"))});
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
          {"wrong", board.checked > 0 ? nlohmann::ordered_json(board.wrong) : nullptr}};
}

nlohmann::ordered_json to_json(const Options& options, const Scenario& scenario, const RunResult& result,
                               const std::vector<SizeRun>& runs) {
  nlohmann::ordered_json json = summary(scenario, result);
  json["rows"] = nlohmann::ordered_json::array();
  for (const SizeRun& run : runs) {
    json["rows"].push_back(
        {{"size", run.shape.bytes},
         {"count", run.shape.count},
         {"type", "float"},
         {"root", options.root},
         {"bound_ns", run.bound_ps > 0 ? nlohmann::ordered_json(static_cast<double>(run.bound_ps) / 1e3) : nullptr},
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
  std::vector<CollectiveBuffers> buffers = buffers_for(ranks_of(scenario), runs.back().in_place.bytes, true, "-e");
  RunResult result;
  {
    Progress progress(models::name_of(options.op), static_cast<int>(runs.size()));
    result.simulation = simulate(scenario, simulate_options, recorder, [&](RankHost& host) {
      return run_rank(host, buffers[static_cast<std::size_t>(host.rank())], engine, options.warmup,
                      first_salt(scenario.seed), runs, progress);
    });
  }
  result.workload = models::name_of(options.op);
  result.bytes = runs.back().shape.bytes;
  result.iterations = options.iterations;
  result.warmup = options.warmup;
  for (const SizeRun& run : runs) {
    for (const CaseBoard* board : {&run.out_of_place_board, &run.in_place_board}) {
      result.wrong += board->wrong;
      result.checked += board->checked;
      if (result.first_wrong.empty()) result.first_wrong = board->first_wrong;
    }
  }
  result.time_ps = runs.back().in_place_board.average_ps();
  result.busbw_factor = models::bus_factor(options.op, ranks_of(scenario));
  result.pairs = recorder.pairs();
  result.messages = recorder.totals();
  result.connections = recorder.connections();
  if (result.simulation.ended_well()) {
    prove(result, options, scenario, simulate_options.files, runs,
          BoundTable(scenario, result.simulation, result.pairs));
  }
  for (const SizeRun& run : runs) {
    for (const CaseBoard* board : {&run.out_of_place_board, &run.in_place_board}) {
      recorder.digest().add(static_cast<std::uint64_t>(board->total_ps()));
      recorder.digest().add(board->wrong);
      for (const std::uint64_t hash : board->results) recorder.digest().add(hash);
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
  text += fmt::format("# {:<20} : {}\n# {:<20} : {:g} \n#\n", "Out of bounds values",
                      result.checked == 0 ? "N/A (not checked)"
                                          : fmt::format("{} {}", result.wrong, result.wrong == 0 ? "OK" : "FAILED"),
                      "Avg bus bandwidth", average_busbw(runs, result.busbw_factor));
  for (const sim::Proof& proof : result.proofs) {
    text += fmt::format("# proof {} {}: {}\n", mark_of(proof), proof.name, proof.detail);
  }
  return text;
}

/// The last lines of every sweep: cost, what went wrong, the digest.
std::string closing(const RunResult& result) {
  std::string text = fmt::format("# {:.2f} CPU s\n", result.cpu_s);
  if (const std::string verdict = verdict_line(result); !verdict.empty()) text += "# " + verdict + "\n";
  return text + fmt::format("# digest {}\n", result.digest);
}

}  // namespace

int perf_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  const std::optional<Options> options = parse(arguments, out);
  if (!options) return kExitOk;
  if (options->run.world != "sim") {
    throw std::runtime_error(
        fmt::format("perf: --world {}: not built yet; one size at a time: meshbed run --world {} {}",
                    options->run.world, options->run.world, options->run.scenario_path));
  }
  const Scenario scenario = scenario_for(options->run);
  if (options->root < 0 || options->root >= ranks_of(scenario)) {
    throw std::runtime_error(
        fmt::format("-r {}: the scenario has ranks 0 to {}", options->root, ranks_of(scenario) - 1));
  }
  if (!scenario.cluster.management) {
    throw std::runtime_error(fmt::format(
        "{}: perf's ranks meet over the management network, and [management] enabled is false here; leave it on",
        scenario.path));
  }
  std::vector<SizeRun> runs = plan(*options, scenario);
  (options->run.json ? err : out) << preamble(*options, scenario) << std::flush;
  if (const std::string left_out = not_carried_out(scenario); !left_out.empty()) err << "meshbed: " << left_out << "\n";

  RunResult result = run_sweep(*options, scenario, runs);
  if (options->run.json) {
    out << to_json(*options, scenario, result, runs).dump(2) << "\n";
  } else {
    if (result.simulation.ended_well()) out << table(*options, result, runs);
    out << closing(result) << std::flush;
  }
  const int status = exit_status(result);
  if (status != kExitOk) err << "meshbed: " << failure_line(result) << "\n";
  return status;
}

}  // namespace meshbed::cli

#include "cli/bench/perf_sweep.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/common/units.h"
#include "cli/scenario/placement.h"
#include "cli/workload/bounds.h"
#include "cli/workload/workload.h"

namespace meshbed::cli {
namespace {

CollectiveCase case_of(const PerfOptions& options, const Scenario& scenario, std::uint64_t bytes, bool in_place) {
  return {.op = options.op,
          .type = options.type,
          .reduction = options.reduction,
          .bytes = bytes,
          .in_place = in_place,
          .iterations = options.iterations,
          .check = options.check,
          .root = options.root,
          .shift = scenario.workload.shift,
          .senders = scenario.workload.senders};
}

/// Proofs over the whole sweep: each size against its bounds, all data, and what holds for every run.
void prove(RunResult& result, const PerfOptions& options, const Scenario& scenario, const BuiltFiles& files,
           std::vector<SizeRun>& runs, const BoundTable& bounds) {
  const char* const name = "no size beats its bound";
  std::size_t bounded = 0;
  std::optional<sim::Proof> broken;
  for (SizeRun& run : runs) {
    const Bounds bound = bounds.of(run.in_place, run.shape.bytes);
    run.bound_ps = std::max(bound.ring.time_ps, bound.any_algorithm_ps);
    bounded += run.bound_ps > 0 ? 1 : 0;
    for (const CaseResults* board : {&run.out_of_place_board, &run.in_place_board}) {
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

}  // namespace

std::vector<SizeRun> plan_sweep(const PerfOptions& options, const Scenario& scenario) {
  std::vector<SizeRun> runs;
  for (const std::uint64_t bytes : sweep_sizes(options.sweep)) {
    SizeRun run;
    run.shape = shape_of(options.op, bytes, ranks_of(scenario), options.type);
    run.out_of_place = case_of(options, scenario, bytes, false);
    run.in_place = case_of(options, scenario, bytes, true);
    runs.push_back(std::move(run));
  }
  return runs;
}

Result<void> run_rank_sweep(RankHost& host, CollectiveBuffers& buffers, const RankSweep& sweep) {
  Result<Engine> engine = Engine::open(host, sweep.engine);
  if (!engine) return engine.error();
  std::uint32_t salt = sweep.salt;
  const auto run = [&](CollectiveCase wanted, CaseResults& board) {
    return run_case(host, *engine, buffers, wanted, salt++, board);
  };
  for (const SizeRun* size : {&sweep.runs.back(), &sweep.runs.front()}) {
    CollectiveCase warm = size->out_of_place;
    warm.iterations = sweep.warmup;
    CaseResults unread;
    if (const Result<void> done = run(warm, unread); !done) return done;
  }
  for (SizeRun& size : sweep.runs) {
    if (const Result<void> done = run(size.out_of_place, size.out_of_place_board); !done) return done;
    if (const Result<void> done = run(size.in_place, size.in_place_board); !done) return done;
    if (host.rank() == 0) sweep.after_size(size);
  }
  if (const Result<void> all = host.rendezvous(); !all) return all;
  return engine->close();
}

void conclude_sweep(const PerfOptions& options, const Scenario& scenario, const std::vector<SizeRun>& runs,
                    RunResult& result) {
  result.workload = models::name_of(options.op);
  result.bytes = runs.back().shape.bytes;
  result.iterations = options.iterations;
  result.warmup = options.warmup;
  for (const SizeRun& run : runs) {
    for (const CaseResults* board : {&run.out_of_place_board, &run.in_place_board}) {
      result.wrong += board->wrong;
      result.checked += board->checked;
      if (result.first_wrong.empty()) result.first_wrong = board->first_wrong;
    }
  }
  result.time_ps = runs.back().in_place_board.average_ps();
  result.busbw_factor = models::bus_factor(options.op, ranks_of(scenario));
}

RunResult simulate_sweep(const PerfOptions& options, const Scenario& scenario, std::vector<SizeRun>& runs) {
  const SimulateOptions simulate_options{.files = built_files(), .contexts = options.run.contexts};
  const EngineOptions engine = engine_options(scenario, simulate_options.files);
  sim::Recorder recorder(scenario.cluster, "");
  std::vector<CollectiveBuffers> buffers = buffers_for(ranks_of(scenario), runs.back().in_place.bytes, true, "-e");
  RunResult result;
  {
    Progress progress(models::name_of(options.op), static_cast<int>(runs.size()));
    const RankSweep sweep{.engine = engine,
                          .warmup = options.warmup,
                          .salt = first_salt(scenario.seed),
                          .runs = runs,
                          .after_size = [&](const SizeRun&) { progress.step(); }};
    result.simulation = simulate(scenario, simulate_options, recorder, [&](RankHost& host) {
      return run_rank_sweep(host, buffers[static_cast<std::size_t>(host.rank())], sweep);
    });
  }
  conclude_sweep(options, scenario, runs, result);
  result.pairs = recorder.pairs();
  result.messages = recorder.totals();
  result.connections = recorder.connections();
  if (result.simulation.ended_well()) {
    prove(result, options, scenario, simulate_options.files, runs,
          BoundTable(scenario, result.simulation, result.pairs));
  }
  for (const SizeRun& run : runs) {
    for (const CaseResults* board : {&run.out_of_place_board, &run.in_place_board}) {
      recorder.digest().add(static_cast<std::uint64_t>(board->total_ps()));
      recorder.digest().add(board->wrong);
      for (const std::uint64_t hash : board->results) recorder.digest().add(hash);
    }
  }
  result.digest = recorder.digest().hex();
  add_process_usage(result);
  return result;
}

}  // namespace meshbed::cli

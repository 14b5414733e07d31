#include "cli/bench/perf_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "plugin/coll/plan/algorithm.h"
#include "testbed/base/interruption.h"
#include "testbed/base/progress.h"
#include "testbed/base/units.h"
#include "testbed/scenario/placement.h"
#include "testbed/workload/bounds.h"
#include "testbed/workload/outcome.h"
#include "testbed/workload/software.h"
#include "testbed/workload/workload.h"
#include "testbed/world/metal_session.h"

namespace meshbed::testbed {
namespace {

/// What is wanted of each size, but for what software costs, which depends on all of it.
CollectiveCase case_of(const PerfOptions& options, const Scenario& scenario, std::uint64_t bytes, bool in_place) {
  return {.op = options.op,
          .bytes = bytes,
          .in_place = in_place,
          .iterations = options.iterations,
          .check = options.checks > 0,
          .shift = scenario.workload.shift,
          .senders = scenario.workload.senders};
}

nlohmann::json findings_of(const std::vector<SizeRun>& runs, Picoseconds connect_ps) {
  nlohmann::json boards = nlohmann::json::array();
  for (const SizeRun& run : runs) {
    boards.push_back({board_findings(run.out_of_place_board), board_findings(run.in_place_board)});
  }
  return {{"boards", boards}, {"connect_ps", connect_ps}};
}

void take_in(std::vector<SizeRun>& runs, Picoseconds& connect_ps, const nlohmann::json& found) {
  connect_ps = std::max(connect_ps, found.at("connect_ps").get<Picoseconds>());
  const nlohmann::json& boards = found.at("boards");
  for (std::size_t index = 0; index < runs.size(); ++index) {
    take_in_findings(runs[index].out_of_place_board, boards.at(index).at(0));
    take_in_findings(runs[index].in_place_board, boards.at(index).at(1));
  }
}

/// All that a difference in would run another sweep on one of the ranks.
nlohmann::json common_sweep(const PerfOptions& options, const Scenario& scenario, const BuiltFiles& files) {
  nlohmann::json common = common_ground(scenario, files);
  common["OP"] = models::name_of(options.op);
  common["-b"] = options.sweep.min_bytes;
  common["-e"] = options.sweep.max_bytes;
  common["-f"] = options.sweep.step_factor;
  common["-i"] = options.sweep.step_bytes;
  common["-n"] = options.iterations;
  common["-w"] = options.warmup;
  common["-c"] = options.checks;
  common["-d"] = options.type_text;
  common["-o"] = options.reduction_text;
  common["-r"] = options.root_text;
  common["-z"] = static_cast<int>(options.pacing.wait);
  common["-m"] = options.pacing.operations;
  common["-G"] = options.pacing.launches;
  common["-N"] = options.cycles;
  common["-R"] = options.registered;
  return common;
}

double microseconds(const CaseResults& board) { return static_cast<double>(board.average_ps()) / 1e6; }

/// Of virtual time after the digest of all messages. Of real time nothing goes in: there only what was asked for and
/// what came of it repeats.
std::string finish_digest(sim::Digest& digest, const RunResult& result, const std::vector<SizeRun>& runs) {
  const bool timed = result.world.virtual_time;
  if (!timed) digest.add(result.workload);
  for (const SizeRun& run : runs) {
    if (!timed) digest.add(run.shape.bytes);
    for (const CaseResults* board : {&run.out_of_place_board, &run.in_place_board}) {
      if (timed) digest.add(static_cast<std::uint64_t>(board->total_ps()));
      digest.add(board->wrong);
      for (const std::uint64_t hash : board->results) digest.add(hash);
    }
  }
  if (!timed) {
    for (const RankError& error : result.simulation.errors) digest.add(error.text);
  }
  return digest.hex();
}

/// Each size against its bounds. Operations that follow each other closely overlap in what a bound has of latency:
/// these are held against what must cross the NICs, all of them together.
void prove_times(const Pacing& pacing, RunResult& result, std::vector<SizeRun>& runs, const BoundTable& bounds) {
  const char* const name = "no size beats its bound";
  std::size_t bounded = 0;
  std::optional<sim::Proof> broken;
  for (SizeRun& run : runs) {
    const Bounds bound = bounds.of(run.in_place, run.shape.bytes);
    run.bound_ps = pacing.is_plain() ? std::max(bound.ring.time_ps, bound.any_algorithm_ps) : bound.any_algorithm_ps;
    bounded += run.bound_ps > 0 ? 1 : 0;
    for (const CaseResults* board : {&run.out_of_place_board, &run.in_place_board}) {
      const Picoseconds time_ps = pacing.is_plain() ? board->fastest_ps() : board->average_ps();
      const sim::Proof proof = sim::bound_kept(fmt::format("{} bytes", run.shape.bytes), time_ps, run.bound_ps);
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
}

/// What one rank does: warm-up with the largest and the smallest size, as nccl-tests has it, then each size; one that
/// goes another way than those before it has a warm-up of its own, so that no time includes the making of connections.
struct RankSweep {
  const EngineOptions& engine;
  const PerfOptions& options;
  std::uint32_t salt;
  int ranks_here;                                       // of this process
  std::vector<SizeRun>& runs;                           // boards of all of them
  Picoseconds& connect_ps;                              // as RunResult's, likewise
  std::function<void(const SizeRun& done)> after_size;  // called when the last of them has ended it
};

/// What decides which connections a size needs: the transport opens more of them for messages that it stripes.
struct Way {
  EnginePlan plan;
  bool striped = false;
  bool operator==(const Way&) const = default;
};

Result<Way> way_of(RankHost& host, Engine& engine, CollectiveBuffers& buffers, const CollectiveCase& wanted) {
  auto plan = plan_of(host, engine, buffers, wanted);
  if (!plan) return plan.error();
  // At least so large are the messages of a size that may be striped, under any plan.
  return Way{*plan, wanted.bytes >= coll::kStripedFromBytes};
}

Result<void> run_rank_sweep(RankHost& host, CollectiveBuffers& buffers, const RankSweep& sweep) {
  Result<Engine> engine = Engine::open(host, sweep.engine);
  if (!engine) return engine.error();
  std::uint32_t salt = sweep.salt;
  if (sweep.options.registered) {
    for (std::byte* memory : {buffers.send(), buffers.recv()}) {
      const meshcoll_result result = engine->calls().register_memory(engine->comm(), memory, buffers.size_bytes());
      if (const Result<void> done = engine->outcome(result); !done) return done;
    }
  }
  const auto run = [&](const CollectiveCase& wanted, CaseResults& board) {
    return run_case(host, *engine, buffers, wanted, salt++, board);
  };
  const auto measure = [&](const CollectiveCase& wanted, CaseResults& board) -> Result<void> {
    if (sweep.options.pacing.is_plain()) return run(wanted, board);
    if (auto done = run_paced(host, *engine, buffers, wanted, sweep.options.pacing, salt++, board); !done) return done;
    CollectiveCase checked = wanted;
    checked.iterations = sweep.options.checks;
    checked.timed = false;
    checked.log = nullptr;
    return run(checked, board);
  };
  const auto warm_up = [&](const SizeRun& size) {
    CollectiveCase warm = size.out_of_place;
    warm.iterations = sweep.options.warmup;
    warm.timed = false;
    CaseResults unread;
    return run(warm, unread);
  };
  std::vector<std::vector<Way>> warm;  // of each sweep
  for (auto size = sweep.runs.begin(); size != sweep.runs.end(); ++size) {
    if (!size->begins_sweep) continue;
    const auto next = std::find_if(size + 1, sweep.runs.end(), [](const SizeRun& run) { return run.begins_sweep; });
    warm.emplace_back();
    for (const SizeRun& each : {std::ref(*(next - 1)), std::ref(*size)}) {
      if (const Result<void> done = warm_up(each); !done) return done;
      const Result<Way> way = way_of(host, *engine, buffers, each.out_of_place);
      if (!way) return way.error();
      warm.back().push_back(*way);
    }
  }
  auto known = warm.begin();
  for (SizeRun& size : sweep.runs) {
    if (size.begins_sweep && &size != &sweep.runs.front()) ++known;
    const Result<Way> way = way_of(host, *engine, buffers, size.out_of_place);
    if (!way) return way.error();
    if (sweep.options.warmup > 0 && std::find(known->begin(), known->end(), *way) == known->end()) {
      if (const Result<void> done = warm_up(size); !done) return done;
      known->push_back(*way);
    }
    if (const Result<void> done = measure(size.out_of_place, size.out_of_place_board); !done) return done;
    if (const Result<void> done = measure(size.in_place, size.in_place_board); !done) return done;
    if (++size.ranks_ended == sweep.ranks_here) sweep.after_size(size);
  }
  const Result<meshcoll_stats> stats = engine->stats();
  if (!stats) return stats.error();
  sweep.connect_ps = std::max(sweep.connect_ps, stats->connect_ns * kPicosecondsPerNanosecond);
  if (const Result<void> all = host.rendezvous(); !all) return all;
  return engine->close();
}

/// Adds up the boards: everything that holds in any world.
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

}  // namespace

std::vector<SizeRun> plan_sweep(const PerfOptions& options, const Scenario& scenario) {
  std::vector<SizeRun> runs;
  const std::vector<std::uint64_t> sizes = sweep_sizes(options.sweep);
  const auto add_sweep = [&](coll::DataType type, coll::ReduceOp reduction, int root) {
    for (std::size_t index = 0; index < sizes.size() * static_cast<std::size_t>(options.cycles); ++index) {
      const std::uint64_t bytes = sizes[index % sizes.size()];
      SizeRun run;
      run.shape = shape_of(options.op, bytes, ranks_of(scenario), type);
      run.out_of_place = case_of(options, scenario, bytes, false);
      run.in_place = case_of(options, scenario, bytes, true);
      for (CollectiveCase* each : {&run.out_of_place, &run.in_place}) {
        each->type = type;
        each->reduction = reduction;
        each->root = root;
        *each = with_software(scenario, *each);
      }
      run.begins_sweep = index == 0;
      runs.push_back(std::move(run));
    }
  };
  for (const coll::DataType type : options.types) {
    for (const coll::ReduceOp reduction : options.reductions) {
      for (const int root : options.roots) add_sweep(type, reduction, root);
    }
  }
  return runs;
}

RunResult run_sweep(const RunWorld& world, const PerfOptions& options, const Scenario& scenario,
                    std::vector<SizeRun>& runs, const SweepListener& listener) {
  const bool timed = world.facts().virtual_time;
  const RankRange here = world.ranks_here(ranks_of(scenario));
  const BuiltFiles files = built_files();
  const EngineOptions engine = engine_options(scenario, files);
  sim::Recorder recorder(scenario.cluster, "");
  // Kept until the run is over: what a failed rank leaves registered may still be written to.
  std::vector<CollectiveBuffers> buffers = buffers_for(here.count, runs.back().in_place.bytes, true, "-e");
  std::optional<Progress> progress;
  if (timed && !listener.row) progress.emplace(models::name_of(options.op), static_cast<int>(runs.size()));
  int sizes_done = 0;
  const auto after_size = [&](const SizeRun& run) {
    if (progress) return progress->step();
    if (timed && listener.row) {
      Interruption::set_progress(++sizes_done, static_cast<int>(runs.size()));
      return listener.row(run);
    }
    if (here.first > 0) return;
    listener.say(fmt::format("{} of {} sizes: {} bytes, {:.1f} us out of place, {:.1f} us in place at rank 0",
                             ++sizes_done, runs.size(), run.shape.bytes, microseconds(run.out_of_place_board),
                             microseconds(run.in_place_board)));
  };
  Picoseconds connect_ps = -1;
  OperationLog log(here.count);
  for (SizeRun& run : runs) run.out_of_place.log = run.in_place.log = &log;
  const RankSweep sweep{.engine = engine,
                        .options = options,
                        .salt = first_salt(scenario.seed),
                        .ranks_here = here.count,
                        .runs = runs,
                        .connect_ps = connect_ps,
                        .after_size = after_size};
  const auto run_rank = [&](RankHost& host) {
    return run_rank_sweep(host, buffers[static_cast<std::size_t>(host.rank() - here.first)], sweep);
  };
  const WorldProgram program{.run_rank = run_rank,
                             .recorder = &recorder,
                             .contexts = options.run.contexts,
                             .common = [&] { return common_sweep(options, scenario, files); },
                             .findings = [&] { return findings_of(runs, connect_ps); },
                             .take_in = [&](const nlohmann::json& found) { take_in(runs, connect_ps, found); },
                             .time_limit_s = time_limit_of(options.run)};
  RunResult result = world.run(scenario, program).result;
  progress.reset();
  conclude_sweep(options, scenario, runs, result);
  result.operations = log.take();
  result.connect_ps = connect_ps;
  result.pairs = recorder.pairs();
  result.messages = recorder.totals();
  result.connections = recorder.connections();
  if (result.simulation.ended_well()) {
    if (timed) prove_times(options.pacing, result, runs, BoundTable(scenario, result.simulation, result.pairs));
    result.proofs.push_back(
        sim::data_right(result.wrong, result.checked, options.checks > 0 && runs.back().shape.recv_count > 0));
    if (timed) {
      add_common_proofs(result, scenario, files);
    } else {
      result.proofs.push_back(one_plugin_file(result.simulation));
    }
  }
  sim::Digest untimed;
  result.digest = finish_digest(timed ? recorder.digest() : untimed, result, runs);
  if (timed) add_process_usage(result);  // ranks of several processes have added theirs up
  return result;
}

}  // namespace meshbed::testbed

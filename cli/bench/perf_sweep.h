#pragma once
// PerfSweep: the sizes of `meshbed perf`, run one after the other on every rank, and what was found out about each.
//
// Engine and connections are opened once. The sweep is the same program in every world; what differs is who joins the
// ranks' findings, and what can be proven of their times.

#include <vector>

#include "cli/bench/perf_format.h"
#include "cli/workload/result.h"
#include "cli/world/run_options.h"
#include "cli/world/world.h"

namespace meshbed::cli {

struct PerfOptions {
  RunOptions run;
  SweepOptions sweep;
  int iterations = 0;
  int warmup = 1;
  bool check = true;
  int root = 0;
  models::Collective op = models::Collective::kAllReduce;
  coll::DataType type = coll::DataType::kFloat32;
  coll::ReduceOp reduction = coll::ReduceOp::kSum;
};

/// One size: what it comes to, and both ways of placing it.
struct SizeRun {
  CollectiveShape shape;
  CollectiveCase out_of_place, in_place;
  CaseResults out_of_place_board, in_place_board;
  Picoseconds bound_ps = 0;  // no iteration can be faster; 0: nothing is known
};

std::vector<SizeRun> plan_sweep(const PerfOptions& options, const Scenario& scenario);

/// The sweep in a world that has ranks in this process; with proofs and digest. At rank 0 the boards of `runs` are then
/// those of all ranks; elsewhere only the result's errors mean anything. `say` takes a line for each size at rank 0
/// where time is real. Throws as RunWorld::run() does.
RunResult run_sweep(const RunWorld& world, const PerfOptions& options, const Scenario& scenario,
                    std::vector<SizeRun>& runs, const std::function<void(const std::string& line)>& say);

// perf_report.cpp: what nccl-tests prints.
std::string sweep_preamble(const PerfOptions& options, const Scenario& scenario, const WorldFacts& world);
std::string sweep_table(const PerfOptions& options, const RunResult& result, const std::vector<SizeRun>& runs);
/// The last lines of every sweep: cost, what went wrong, the digest.
std::string sweep_closing(const RunResult& result);
nlohmann::ordered_json sweep_json(const PerfOptions& options, const Scenario& scenario, const RunResult& result,
                                  const std::vector<SizeRun>& runs);

}  // namespace meshbed::cli

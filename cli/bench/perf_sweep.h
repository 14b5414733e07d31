#pragma once
// PerfSweep: the sizes of `meshbed perf`, run one after the other on every rank, and what was found out about each.
//
// Engine and connections are opened once. The sweep is the same program in every world; what differs is who joins the
// ranks' findings.

#include <vector>

#include "cli/bench/perf_format.h"
#include "cli/common/progress.h"
#include "cli/scenario/run_options.h"
#include "cli/workload/result.h"

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

/// What one rank does: warm-up with the largest and the smallest size, as nccl-tests has it, then each size.
struct RankSweep {
  const EngineOptions& engine;
  int warmup;
  std::uint32_t salt;
  std::vector<SizeRun>& runs;                           // boards of all ranks of this process
  std::function<void(const SizeRun& done)> after_size;  // called at rank 0
};
Result<void> run_rank_sweep(RankHost& host, CollectiveBuffers& buffers, const RankSweep& sweep);

/// Adds up the boards: everything that holds in any world.
void conclude_sweep(const PerfOptions& options, const Scenario& scenario, const std::vector<SizeRun>& runs,
                    RunResult& result);

/// In virtual time; with proofs. Fills the boards of `runs`.
RunResult simulate_sweep(const PerfOptions& options, const Scenario& scenario, std::vector<SizeRun>& runs);

/// This process's rank, over real devices. At rank 0 the boards of `runs` are those of all ranks; elsewhere only the
/// result's errors mean anything. `say` takes a line for each size at rank 0. Throws as MetalSession does.
RunResult run_metal_sweep(const PerfOptions& options, const Scenario& scenario, std::vector<SizeRun>& runs,
                          const std::function<void(const std::string& line)>& say);

// perf_report.cpp: what nccl-tests prints.
std::string sweep_preamble(const PerfOptions& options, const Scenario& scenario, const std::string& world);
std::string sweep_table(const PerfOptions& options, const RunResult& result, const std::vector<SizeRun>& runs);
/// The last lines of every sweep: cost, what went wrong, the digest.
std::string sweep_closing(const RunResult& result);
nlohmann::ordered_json sweep_json(const PerfOptions& options, const Scenario& scenario, const RunResult& result,
                                  const std::vector<SizeRun>& runs);

}  // namespace meshbed::cli

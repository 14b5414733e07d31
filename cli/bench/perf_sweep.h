#pragma once
// PerfSweep: the sizes of `meshbed perf`, run one after the other on every rank, and the results of each.
//
// Engine and connections are opened once. The sweep is the same program in every world; worlds differ in the process
// that joins the ranks' findings, and in the properties of times that can be proven.

#include <optional>
#include <vector>

#include "cli/bench/perf_format.h"
#include "cli/common/run_options.h"
#include "testbed/base/interruption.h"
#include "testbed/plot/plot.h"
#include "testbed/workload/result.h"
#include "testbed/world/world.h"

namespace meshbed::testbed {

struct PerfOptions {
  RunOptions run;
  SweepOptions sweep;
  int iterations = 0;
  int warmup = 1;
  int checks = 1;                    // -c: 0, or how often a size is checked where its iterations are not
  Pacing pacing;                     // -z -m -G
  int graph_launches = 0;            // -G; 0: no graph
  int cycles = 1;                    // -N: the whole list of sizes so often
  bool registered = false;           // -R 1: buffers are registered once, and not by each operation
  std::optional<int> per_iteration;  // -I 1: statistics, without so many of the first (-K)
  models::Collective op = models::Collective::kAllReduce;
  // One or all: as nccl-tests does, each root of each reduction of each type is a sweep of its own.
  std::vector<coll::DataType> types{coll::DataType::kFloat32};
  std::vector<coll::ReduceOp> reductions{coll::ReduceOp::kSum};
  std::vector<int> roots{0};
  std::string type_text, reduction_text, root_text;  // as they were given
  std::vector<std::string> notes;                    // what was passed over, and what "all" leaves out
  std::string json_path;                             // -J; empty: none
  std::string plot;                                  // --plot; empty: none
};

/// One size: what it comes to, and both ways of placing it.
struct SizeRun {
  CollectiveShape shape;
  CollectiveCase out_of_place, in_place;
  CaseResults out_of_place_board, in_place_board;
  Picoseconds bound_ps = 0;   // no iteration can be faster; 0: nothing is known
  int ranks_ended = 0;        // of this process's
  bool begins_sweep = false;  // the first size of its type, reduction and root: warm-up comes before it
};

std::vector<SizeRun> plan_sweep(const PerfOptions& options, const Scenario& scenario);

/// What is reported of a size once it has been measured.
struct SweepListener {
  std::function<void(const SizeRun& run)> row;            // in virtual time, where its board is complete; may be empty
  std::function<void(const std::string& line)> say = {};  // at rank 0 where time is real: a line
};

/// The sweep in a world that has ranks in this process; with proofs and digest. At rank 0 the boards of `runs` are then
/// those of all ranks; elsewhere only the result's errors mean anything. Throws as RunWorld::run() does.
RunResult run_sweep(const RunWorld& world, const PerfOptions& options, const Scenario& scenario,
                    std::vector<SizeRun>& runs, const SweepListener& listener);

// perf_report.cpp: what nccl-tests prints.
std::string sweep_preamble(const PerfOptions& options, const Scenario& scenario, const WorldFacts& world);
std::string sweep_heading(const PerfOptions& options);
std::string sweep_row(const PerfOptions& options, const Scenario& scenario, const SizeRun& run);
/// What follows the rows of a sweep that ended well.
std::string sweep_findings(const Scenario& scenario, const RunResult& result, const std::vector<SizeRun>& runs);
/// The last lines of every sweep: cost, what went wrong, the digest.
std::string sweep_closing(const RunResult& result);
nlohmann::ordered_json sweep_json(const Scenario& scenario, const RunResult& result, const std::vector<SizeRun>& runs);
/// Bus bandwidth over sizes.
Plot perf_plot(const PerfOptions& options, const Scenario& scenario, const RunResult& result,
               const std::vector<SizeRun>& runs);
/// Over all sizes and both placements.
double average_busbw(const std::vector<SizeRun>& runs, double bus_factor);

/// A file of nccl-tests' JSON, version 3 (perf_json.cpp). As there, a file that is there already is left alone, and
/// FILE.0, FILE.1, ... is written in its place.
class PerfJsonFile {
 public:
  /// Creates it, empty; throws std::runtime_error for a name without ".json" at its end, or where it cannot be made.
  explicit PerfJsonFile(const std::string& path);
  /// Removes it where nothing was written.
  ~PerfJsonFile();
  PerfJsonFile(const PerfJsonFile&) = delete;
  PerfJsonFile& operator=(const PerfJsonFile&) = delete;

  const std::string& path() const { return path_; }
  void write(const PerfOptions& options, const Scenario& scenario, const RunResult& result,
             const std::vector<SizeRun>& runs, const std::vector<std::string>& command_line);
  /// What another process has written.
  void take(const std::string& text);

 private:
  std::string path_, began_;
  bool written_ = false;
  std::optional<UnfinishedFile> unfinished_;  // until it is written
};

}  // namespace meshbed::testbed

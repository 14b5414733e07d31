#pragma once
// RunResult: all results of a run, collected once; the text report, summary.json and the exit status read it.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/trace/proof.h"
#include "sim/trace/recorder.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/scenario/kinds/world_facts.h"
#include "testbed/workload/collective.h"
#include "testbed/workload/operations.h"
#include "testbed/workload/outcome.h"

namespace meshbed::testbed {

/// What the ranks called, warm-up included; nothing where the workload calls no collective.
struct CollectiveCalls {
  CollectiveCase collective;
  std::vector<CallTime> times;
};

/// One case of a matrix.
struct MatrixOutcome {
  std::string collective, text;  // testbed/workload/matrix.h
  std::uint64_t wrong = 0, checked = 0;
  Picoseconds time_ps = 0;
  std::vector<std::uint64_t> data;  // by rank, as RunResult's; once more where rounding shows the order of a reduction
};

/// What `auto` chose from.
struct ReplayChoice {
  std::string algorithm;
  Picoseconds time_ps = 0;  // 0: it takes longer than the fastest, or is refused
  std::string refused;      // why there is none on this network
};

/// A run of a schedule without plugin code (sim/replay/replay.h).
struct ReplayFacts {
  std::string detail;         // "data", "plugin", "recorded"
  std::string algorithm;      // "ring", "tree", "halving-doubling", "torus", "pairs"; empty: detail is recorded
  std::uint64_t events = 0;   // messages that were simulated one by one
  std::uint64_t skipped = 0;  // messages in periods that repeated exactly
  bool folded = false;        // one rank stood for all
  bool contended = false;     // messages shared links: times are the chunk fabric's
  std::vector<ReplayChoice> choices{};
  std::string schedule{}, recorded_from{};  // detail recorded: the file, and the scenario of its run
  bool has_calls = true;                    // detail recorded: of a collective, whose times are known
};

struct RingOutcome;  // testbed/workload/megakernel/outcome.h

struct RunResult {
  WorldFacts world;
  std::string workload;  // "all_reduce", "nccl-calls pair-all-reduce", "idle"
  std::uint64_t bytes = 0;
  int iterations = 0;
  int warmup = 0;                              // iterations before those: not timed, but in messages, pairs and links
  std::vector<IterationTime> iteration_times;  // of a collective that ended well, the timed ones in order
  /// Of the rank that took longest: in which its calls waited for connections to be made, warm-up included. Part of the
  /// first timed iteration where there was no warm-up, and connections are made on first use. -1: not known.
  Picoseconds connect_ps = -1;
  Picoseconds time_ps = 0;  // of one iteration, on average; nccl-calls: of the whole replay
  double busbw_factor = 1;
  Picoseconds bound_ps = 0;  // closed-form lower bound of time_ps; 0: none
  std::uint64_t wrong = 0;
  std::uint64_t checked = 0;
  std::string first_wrong;
  std::vector<std::uint64_t> data;  // by rank: XXH3-64 of what it got, in order; empty where nothing was checked
  std::vector<MatrixOutcome> matrix;
  std::vector<OperationRecord> operations;   // how each collective went, warm-up included
  CollectiveCalls calls;                     // in the simulated world
  std::shared_ptr<const RingOutcome> rings;  // of megakernels; nullptr: there were none
  std::optional<ReplayFacts> replay;
  std::uint64_t connections = 0;
  Simulation simulation;
  std::map<sim::PairKey, sim::PairUsage> pairs;
  sim::MessageTotals messages;
  std::vector<sim::Proof> proofs;
  std::vector<sim::Proof> expectations;
  bool expected_error_seen = false;
  std::string digest;
  double cpu_s = 0;
  std::uint64_t peak_rss_bytes = 0;

  double algbw_GBps() const { return algbw_GBps(time_ps); }
  double algbw_GBps(Picoseconds iteration_ps) const;  // of one iteration that took so long
  double busbw_GBps() const { return algbw_GBps() * busbw_factor; }
  double over_bound() const;  // 0: no bound
};

/// The proofs that hold for every workload; the caller adds those of its own.
void add_common_proofs(RunResult& result, const Scenario& scenario, const BuiltFiles& files);
/// CPU time and peak memory of this process so far.
void add_process_usage(RunResult& result);
int exit_status(const RunResult& result);

}  // namespace meshbed::testbed

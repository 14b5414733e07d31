#pragma once
// Workload: a scenario's workload as a program for every rank, and the evaluation of its outcome.
//
// In the simulated world one process runs all ranks of a WorkloadRun; elsewhere each process runs one, and rank 0
// collects the findings of the others.

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "testbed/scenario/placement.h"
#include "testbed/workload/engine.h"
#include "testbed/workload/rank_host.h"
#include "testbed/workload/result.h"

namespace meshbed::testbed {

/// Ranks [first, first + count).
struct RankRange {
  int first = 0;
  int count = 0;
};

class WorkloadRun {
 public:
  virtual ~WorkloadRun() = default;

  /// One rank, from its start to its end.
  virtual Result<void> run_rank(RankHost& host) = 0;

  /// What this process's ranks found out, and the taking in of what another process's did.
  virtual nlohmann::json findings() const = 0;
  /// Throws nlohmann::json::exception where they are not of this workload.
  virtual void take_in(const nlohmann::json& findings) = 0;

  /// Everything that holds in any world: sizes, times, data, proofs about the data. `result.simulation` is there.
  virtual void conclude(RunResult& result) = 0;
  /// Proofs against the closed forms of the modelled links, after conclude().
  virtual void prove_times(const Scenario&, RunResult&) const {}
};

/// For these ranks of the scenario. Throws std::runtime_error where the run cannot be set up.
std::unique_ptr<WorkloadRun> make_workload(const Scenario& scenario, const BuiltFiles& files, RankRange ranks);

/// The engine as the scenario's [workload] asks for it.
EngineOptions engine_options(const Scenario& scenario, const BuiltFiles& files);

/// Adds what the ranks computed to a digest; no times.
void digest_data(sim::Digest& digest, const RunResult& result);

// The same for each kind.
std::unique_ptr<WorkloadRun> make_collective(const Scenario& scenario, const BuiltFiles& files, RankRange ranks);
std::unique_ptr<WorkloadRun> make_matrix(const Scenario& scenario, const BuiltFiles& files, RankRange ranks);
std::unique_ptr<WorkloadRun> make_megakernel(const Scenario& scenario, const BuiltFiles& files, RankRange ranks);
/// Its slots done by a kernel on each rank's GPU: memory = "gpu".
std::unique_ptr<WorkloadRun> make_megakernel_on_gpus(const Scenario& scenario, const BuiltFiles& files,
                                                     RankRange ranks);
std::unique_ptr<WorkloadRun> make_nccl_calls(const Scenario& scenario, const BuiltFiles& files, RankRange ranks);
std::unique_ptr<WorkloadRun> make_program(const Scenario& scenario);
std::unique_ptr<WorkloadRun> make_reconnect(const Scenario& scenario, const BuiltFiles& files, RankRange ranks);

}  // namespace meshbed::testbed

#include "cli/workload.h"

namespace meshbed::cli {
namespace {

/// Loads the plugin on every rank and leaves: what a cluster costs before anything runs on it.
class IdleRun final : public WorkloadRun {
 public:
  explicit IdleRun(std::string plugin) : plugin_(std::move(plugin)) {}

  Result<void> run_rank(RankHost& host) override {
    const Result<void*> library = host.load(plugin_);
    if (!library) return library.error();
    return host.rendezvous();
  }
  nlohmann::json findings() const override { return nlohmann::json::object(); }
  void take_in(const nlohmann::json&) override {}
  void conclude(RunResult& result) override { result.workload = "idle"; }

 private:
  std::string plugin_;
};

void finish_digest(sim::Digest& digest, const RunResult& result) {
  digest.add(result.workload);
  digest.add(result.bytes);
  digest.add(static_cast<std::uint64_t>(result.time_ps));
  digest_data(digest, result);
  digest.add(static_cast<std::uint64_t>(result.simulation.outcome.kind));
  digest.add(static_cast<std::uint64_t>(result.simulation.elapsed_ps));
  for (const RankError& error : result.simulation.errors) {
    digest.add(static_cast<std::uint64_t>(error.rank));
    digest.add(static_cast<std::uint64_t>(error.at_ps));
    digest.add(error.text);
  }
}

}  // namespace

std::unique_ptr<WorkloadRun> make_workload(const Scenario& scenario, const BuiltFiles& files, RankRange ranks) {
  switch (scenario.workload.kind) {
    case WorkloadKind::kCollective:
      return make_collective(scenario, files, ranks);
    case WorkloadKind::kMatrix:
      return make_matrix(scenario, files, ranks);
    case WorkloadKind::kNcclCalls:
      return make_nccl_calls(scenario, files, ranks);
    case WorkloadKind::kReconnect:
      return make_reconnect(scenario, files, ranks);
    case WorkloadKind::kIdle:
      break;
  }
  return std::make_unique<IdleRun>(net_plugin_of(scenario, files));
}

void digest_data(sim::Digest& digest, const RunResult& result) {
  digest.add(result.wrong);
  digest.add(result.checked);
  for (const std::uint64_t hash : result.data) digest.add(hash);
}

RunResult run_workload(const Scenario& scenario, const SimulateOptions& options, sim::Recorder& recorder) {
  RunResult result;
  const auto run = make_workload(scenario, options.files, {0, ranks_of(scenario)});
  result.simulation = simulate(scenario, options, recorder, [&run](RankHost& host) { return run->run_rank(host); });
  result.messages = recorder.totals();
  result.pairs = recorder.pairs();
  run->conclude(result);
  if (result.simulation.ended_well()) run->prove_times(scenario, result);
  if (result.connections == 0) result.connections = recorder.connections();
  add_common_proofs(result, scenario, options.files);
  finish_digest(recorder.digest(), result);
  result.digest = recorder.digest().hex();
  return result;
}

}  // namespace meshbed::cli

#include "cli/workload.h"

namespace meshbed::cli {
namespace {

/// Loads the plugin on every rank and leaves: what a cluster costs before anything runs on it.
void run_idle(const Scenario& scenario, const SimulateOptions& options, sim::Recorder& recorder, RunResult& result) {
  result.workload = "idle";
  const std::string plugin = net_plugin_of(scenario, options.files);
  result.simulation = simulate(scenario, options, recorder, [&](RankHost& host) -> Result<void> {
    const Result<void*> library = host.load(plugin);
    if (!library) return library.error();
    return host.rendezvous();
  });
}

void finish_digest(sim::Digest& digest, const RunResult& result) {
  digest.add(result.workload);
  digest.add(result.bytes);
  digest.add(static_cast<std::uint64_t>(result.time_ps));
  digest.add(result.wrong);
  digest.add(result.checked);
  for (const std::uint64_t hash : result.data) digest.add(hash);
  digest.add(static_cast<std::uint64_t>(result.simulation.outcome.kind));
  digest.add(static_cast<std::uint64_t>(result.simulation.elapsed_ps));
  for (const RankError& error : result.simulation.errors) {
    digest.add(static_cast<std::uint64_t>(error.rank));
    digest.add(static_cast<std::uint64_t>(error.at_ps));
    digest.add(error.text);
  }
}

}  // namespace

RunResult run_workload(const Scenario& scenario, const SimulateOptions& options, sim::Recorder& recorder) {
  RunResult result;
  switch (scenario.workload.kind) {
    case WorkloadKind::kCollective:
      run_collective(scenario, options, recorder, result);
      break;
    case WorkloadKind::kNcclCalls:
      run_nccl_calls(scenario, options, recorder, result);
      break;
    case WorkloadKind::kIdle:
      run_idle(scenario, options, recorder, result);
      break;
  }
  result.messages = recorder.totals();
  result.pairs = recorder.pairs();
  if (result.connections == 0) result.connections = recorder.connections();
  add_common_proofs(result, scenario, options.files);
  finish_digest(recorder.digest(), result);
  result.digest = recorder.digest().hex();
  return result;
}

}  // namespace meshbed::cli

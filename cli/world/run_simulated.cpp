#include "cli/world/run_simulated.h"

#include "cli/scenario/placement.h"
#include "cli/workload/megakernel/outcome.h"
#include "cli/workload/outcome.h"
#include "cli/workload/workload.h"

namespace meshbed::cli {
namespace {

void digest_rings(sim::Digest& digest, const RingOutcome& rings) {
  rings.trace.add_to(digest);
  for (const RingVerdict& verdict : rings.verdicts) {
    digest.add(static_cast<std::uint64_t>(verdict.at_ps));
    digest.add(ring::name_of(verdict.cause));
    digest.add(verdict.text);
  }
}

void finish_digest(sim::Digest& digest, const RunResult& result) {
  digest.add(result.workload);
  digest.add(result.bytes);
  digest.add(static_cast<std::uint64_t>(result.time_ps));
  digest_data(digest, result);
  if (result.rings != nullptr) digest_rings(digest, *result.rings);
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

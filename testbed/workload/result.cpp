#include "testbed/workload/result.h"

#include <sys/resource.h>

#include "testbed/base/exit_status.h"
#include "testbed/scenario/placement.h"
#include "testbed/workload/outcome.h"

namespace meshbed::testbed {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

double RunResult::algbw_GBps(Picoseconds iteration_ps) const {
  // bytes per picosecond are TB/s.
  return iteration_ps > 0 ? static_cast<double>(bytes) / static_cast<double>(iteration_ps) * 1e3 : 0;
}

double RunResult::over_bound() const {
  return bound_ps > 0 ? static_cast<double>(time_ps) / static_cast<double>(bound_ps) : 0;
}

void add_common_proofs(RunResult& result, const Scenario& scenario, const BuiltFiles& files) {
  const Simulation& simulation = result.simulation;
  // What a run that broke off left on its way is not held against it; where it went is.
  if (simulation.ended_well()) {
    result.proofs.push_back(sim::bytes_conserved(simulation.links));
    result.proofs.push_back(sim::sends_matched(result.messages, simulation.verbs.in_flight));
  }
  const std::uint64_t transfers = 4 * result.messages.messages + simulation.verbs.retransmissions;
  // A run that was cut short leaves links in the middle of a busy period, which only its end would have counted.
  if (result.simulation.outcome.kind == sim::OutcomeKind::kFinished) {
    result.proofs.push_back(sim::utilisation_possible(simulation.links, simulation.elapsed_ps, transfers));
  }
  result.proofs.push_back(sim::subnets_true(scenario.cluster, result.pairs));
  if (!simulation.plugin_sha256.empty()) {
    result.proofs.push_back(sim::same_file(sha256_of_file(net_plugin_of(scenario, files)), simulation.plugin_sha256));
  }
}

void add_process_usage(RunResult& result) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  result.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  result.peak_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024U;
}

int exit_status(const RunResult& result) {
  const bool promises_kept = sim::all_ok(result.proofs) && sim::all_ok(result.expectations);
  if (!result.simulation.errors.empty()) return result.expected_error_seen && promises_kept ? kExitOk : kExitBroken;
  if (result.simulation.outcome.kind != sim::OutcomeKind::kFinished) return kExitNoProgress;
  return promises_kept ? kExitOk : kExitBroken;
}

}  // namespace meshbed::testbed

// The faults that were taken, and those that were not reached.

#include <vector>

#include "testbed/base/units.h"
#include "testbed/result/run_document.h"
#include "testbed/result/tables.h"

namespace meshbed::testbed::document {
namespace {

Section faults_shape() {
  Section section{.title = "Faults"};
  section.with({object("strangers", "hosts that do not belong to the job",
                       {integer("connections", "", "that they began"), integer("bytes", "B", "that they sent"),
                        integer("held_at_most", "", "connections that ranks held at one time")})});
  return section.with(fault_table_shape());
}

void fill_faults(Section& section, const RunView& run) {
  const Simulation& simulation = run.result.simulation;
  const sim::HostCounters& host = simulation.host;
  section.table("faults") = fault_table(run.scenario, simulation.faults);
  section.set("strangers", {{"connections", host.stranger_connections},
                            {"bytes", host.stranger_bytes},
                            {"held_at_most", host.peak_strangers_held}});
  const std::vector<FaultStep> left = not_taken(run.scenario, simulation.faults);
  if (run.result.world.faults_by != FaultsBy::kSimulator || (simulation.faults.empty() && left.empty())) return;
  section.blank();
  section.line("faults");
  for (const FaultEvent& event : simulation.faults) {
    section.line("  {:>14}  {}", duration_text(event.at_ps), text_of(run.scenario, event.step));
  }
  for (const FaultStep& step : left) {
    section.line("  {:>14}  {}: the run ended before", "not reached", text_of(run.scenario, step));
  }
  if (host.stranger_connections > 0) {
    section.line("  strangers began {}, sent {}; ranks held {} at most",
                 counted(host.stranger_connections, "connection"), counted(host.stranger_bytes, "byte"),
                 host.peak_strangers_held);
  }
}

const RunSection faults_here(1100, faults_shape, fill_faults);

}  // namespace
}  // namespace meshbed::testbed::document

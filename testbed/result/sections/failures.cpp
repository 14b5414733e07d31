// Errors of ranks, and what waits for what where nothing happens any more.

#include <cstddef>
#include <string>
#include <vector>

#include "testbed/base/units.h"
#include "testbed/result/run_document.h"
#include "testbed/result/state_report.h"
#include "testbed/result/tables.h"
#include "testbed/result/verdict.h"

namespace meshbed::testbed::document {
namespace {

Section failures_shape() {
  Section section{.title = "Failures"};
  section.with(
      {text("outcome", "how the run ended"), texts("waiters", "without progress: what waits for what"),
       any("states", "by rank what its net plugin reported of itself when the run stopped; null without one")});
  return section.with(error_table_shape());
}

/// What `lines_of` makes of each rank's state, below `title` if there is anything.
void show_states(Section& section, const Simulation& simulation, const char* title,
                 std::vector<std::string> (*lines_of)(const nlohmann::ordered_json&)) {
  std::vector<std::string> lines;
  for (std::size_t rank = 0; rank < simulation.states.size(); ++rank) {
    const std::string& state = simulation.states[rank];
    if (state.empty()) continue;
    for (const std::string& line : lines_of(parse_state(state)))
      lines.push_back(fmt::format("  rank {}: {}", rank, line));
  }
  if (lines.empty()) return;
  section.blank();
  section.line("{}{}:", title, simulation.errors.empty() ? "" : " when the first error came");
  for (const std::string& line : lines) section.line("{}", line);
}

void fill_failures(Section& section, const RunView& run) {
  const Simulation& simulation = run.result.simulation;
  Value states = Value::array();
  for (const std::string& state : simulation.states) {
    states.push_back(state.empty() ? Value(nullptr) : parse_state(state));
  }
  section.set("outcome", outcome_of(simulation));
  section.set("waiters", simulation.outcome.waiters);
  section.set("states", std::move(states));
  section.table("errors") = error_table(simulation.errors);
  for (const RankError& error : simulation.errors) {
    section.blank();
    section.line("{} at {}: rank {}: {}", run.result.expected_error_seen ? "expected error seen" : "error",
                 duration_text(error.at_ps), error.rank, error.text);
  }
  if (simulation.outcome.kind != sim::OutcomeKind::kFinished) {
    section.blank();
    section.line("{}; who waits for what:", describe(simulation.outcome.kind));
    for (const std::string& waiter : simulation.outcome.waiters) section.line("  {}", waiter);
  }
  show_states(section, simulation, "connections that had something under way", stuck_lines);
  show_states(section, simulation, "connections that were being made", making_lines);
}

const RunSection failures_here(1200, failures_shape, fill_failures);

}  // namespace
}  // namespace meshbed::testbed::document

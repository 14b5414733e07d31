#include "testbed/result/fault_phases.h"

#include <array>
#include <cstddef>
#include <limits>
#include <set>

namespace meshbed::testbed {
namespace {

/// The time in which faults were active; ends at the end of time where one never ended.
struct ActiveTime {
  Picoseconds begin_ps = 0, end_ps = 0;
};
ActiveTime active_time(const Scenario& scenario, const std::vector<FaultEvent>& taken) {
  std::set<std::size_t> active;
  ActiveTime time{taken.front().at_ps, std::numeric_limits<Picoseconds>::max()};
  for (const FaultEvent& event : taken) {
    const Fault& fault = scenario.faults[event.step.fault];
    const auto ended = info_of(fault.kind).ends;
    if (!event.step.begins) {
      active.erase(event.step.fault);
    } else if (!ended) {
      active.insert(event.step.fault);
    } else {
      std::erase_if(active, [&](std::size_t each) {
        return scenario.faults[each].kind == *ended && scenario.faults[each].target == fault.target;
      });
    }
    time.end_ps = active.empty() ? event.at_ps : std::numeric_limits<Picoseconds>::max();
  }
  return time;
}

}  // namespace

std::vector<FaultPhase> fault_phases(const Scenario& scenario, const RunResult& result) {
  std::vector<FaultPhase> phases;
  if (!result.world.virtual_time || result.simulation.faults.empty()) return phases;
  const ActiveTime active = active_time(scenario, result.simulation.faults);
  std::array<FaultPhase, 3> all{{{.name = "before"}, {.name = "during"}, {.name = "after"}}};
  for (const IterationTime& time : result.iteration_times) {
    FaultPhase& phase = all[time.end_ps <= active.begin_ps ? 0 : time.start_ps >= active.end_ps ? 2 : 1];
    ++phase.iterations;
    phase.time_ps += time.end_ps - time.start_ps;
  }
  for (FaultPhase& phase : all) {
    if (phase.iterations == 0) continue;
    phase.time_ps /= phase.iterations;
    phases.push_back(phase);
  }
  return phases;
}

}  // namespace meshbed::testbed

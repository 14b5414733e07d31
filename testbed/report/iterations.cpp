#include "testbed/report/iterations.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "testbed/report/report.h"

namespace meshbed::testbed {
namespace {

Picoseconds start_of(const RunResult& result, const IterationTime& time) {
  return result.world.virtual_time ? time.start_ps : time.start_ps - result.iteration_times.front().start_ps;
}

double algbw_of(const RunResult& result, Picoseconds time_ps) {
  return time_ps > 0 ? static_cast<double>(result.bytes) / static_cast<double>(time_ps) * 1e3 : 0;
}

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

nlohmann::ordered_json fault_phases_json(const Scenario& scenario, const RunResult& result) {
  auto list = nlohmann::ordered_json::array();
  for (const FaultPhase& phase : fault_phases(scenario, result)) {
    const double algbw_GBps = algbw_of(result, phase.time_ps);
    list.push_back({{"phase", phase.name},
                    {"iterations", phase.iterations},
                    {"time_ns", static_cast<double>(phase.time_ps) / 1e3},
                    {"algbw_GBps", algbw_GBps},
                    {"busbw_GBps", algbw_GBps * result.busbw_factor}});
  }
  return list;
}

nlohmann::ordered_json iterations_json(const RunResult& result) {
  auto list = nlohmann::ordered_json::array();
  for (const IterationTime& time : result.iteration_times) {
    list.push_back({{"start_ns", static_cast<double>(start_of(result, time)) / 1e3},
                    {"time_ns", static_cast<double>(time.end_ps - time.start_ps) / 1e3}});
  }
  return list;
}

std::vector<std::string> iteration_lines(const Scenario& scenario, const RunResult& result) {
  std::vector<std::string> lines;
  if (result.iteration_times.empty()) return lines;
  lines.push_back(fmt::format("{:>9} {:>14} {:>14} {:>9} {:>9} {:>9}", "iteration", "start", "time (us)", "algbw",
                              "busbw", "x bound"));
  auto fault = result.simulation.faults.begin();
  const auto tell_faults = [&](Picoseconds until_ps) {
    for (; fault != result.simulation.faults.end() && fault->at_ps < until_ps; ++fault) {
      lines.push_back(
          fmt::format("{:>9} {:>14}  {}", "-", duration_text(fault->at_ps), text_of(scenario, fault->step)));
    }
  };
  for (std::size_t index = 0; index < result.iteration_times.size(); ++index) {
    const IterationTime& iteration = result.iteration_times[index];
    tell_faults(iteration.end_ps);
    const Picoseconds time_ps = iteration.end_ps - iteration.start_ps;
    const double algbw_GBps = algbw_of(result, time_ps);
    const std::string over_bound =
        result.bound_ps > 0 ? fmt::format("{:.3f}", static_cast<double>(time_ps) / static_cast<double>(result.bound_ps))
                            : "-";
    lines.push_back(fmt::format("{:>9} {:>14} {:>14.3f} {:>9.3f} {:>9.3f} {:>9}", index,
                                duration_text(start_of(result, iteration)), static_cast<double>(time_ps) / 1e6,
                                algbw_GBps, algbw_GBps * result.busbw_factor, over_bound));
  }
  tell_faults(result.simulation.elapsed_ps + 1);
  return lines;
}

}  // namespace meshbed::testbed

#include "cli/report/iterations.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/report/report.h"

namespace meshbed::cli {
namespace {

Picoseconds start_of(const RunResult& result, const IterationTime& time) {
  return result.world.virtual_time ? time.start_ps : time.start_ps - result.iteration_times.front().start_ps;
}

}  // namespace

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
    const double algbw_GBps = time_ps > 0 ? static_cast<double>(result.bytes) / static_cast<double>(time_ps) * 1e3 : 0;
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

}  // namespace meshbed::cli

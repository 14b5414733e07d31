// What perf measured as a plot: bus bandwidth over sizes.

#include <fmt/format.h>

#include "cli/bench/perf_sweep.h"
#include "models/time/machine.h"
#include "testbed/plot/plot.h"
#include "testbed/scenario/cluster_lines.h"
#include "testbed/scenario/placement.h"

namespace meshbed::testbed {

Plot perf_plot(const PerfOptions& options, const Scenario& scenario, const RunResult& result,
               const std::vector<SizeRun>& runs) {
  const double bus_factor = models::bus_factor(options.op, ranks_of(scenario));
  Plot plot{.title = fmt::format("{} on {}", models::name_of(options.op), scenario.name),
            .x = {.title = "message size", .unit = "bytes", .scale = PlotScale::kBytes},
            .y = {.title = "bus bandwidth, as nccl-tests defines it", .unit = "GB/s"},
            .empty_reason = "no size came to its end"};
  const bool is_one = options.types.size() * options.reductions.size() * options.roots.size() == 1;
  const auto GBps = [&](const SizeRun& run, Picoseconds time_ps) {
    return static_cast<double>(run.shape.bytes) / static_cast<double>(time_ps) * 1e3 * bus_factor;
  };
  std::size_t first = 0;  // series of the sweep under way: out of place, in place, bound
  for (const SizeRun& run : runs) {
    if (run.begins_sweep || plot.series.empty()) {
      const std::string what = is_one ? ""
                                      : fmt::format("{} {} root {}: ", name_of(run.in_place.type),
                                                    reduction_text(run.in_place), run.in_place.root);
      first = plot.series.size();
      for (const char* place : {"out of place", "in place"}) plot.series.push_back({.name = what + place});
      if (is_one) plot.series.push_back({.name = "upper bound of this cabling"});
    }
    const auto size = static_cast<double>(run.shape.bytes);
    std::size_t index = first;
    for (const CaseResults* board : {&run.out_of_place_board, &run.in_place_board}) {
      PlotSeries& series = plot.series[index++];
      if (board->average_ps() <= 0) continue;
      series.marks.push_back({size, GBps(run, board->average_ps())});
      series.line.push_back(series.marks.back());
    }
    if (is_one && run.bound_ps > 0) plot.series[index].line.push_back({size, GBps(run, run.bound_ps)});
  }
  if (is_one && plot.series.size() > 2 && plot.series.back().line.empty()) plot.series.pop_back();
  const std::string machine = scenario.software.machine != nullptr ? scenario.software.machine->name : "ideal";
  plot.caption.push_back(fmt::format("Scenario {}, world {}, seed {}, profile {}; digest {}.", scenario.path,
                                     result.world.name, scenario.seed, machine, result.digest));
  plot.caption.push_back(topology_line(scenario) + ".");
  return plot;
}

}  // namespace meshbed::testbed

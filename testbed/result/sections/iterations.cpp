// Each timed iteration by itself, with the faults between them.

#include <cstddef>

#include "testbed/base/units.h"
#include "testbed/result/run_document.h"

namespace meshbed::testbed::document {
namespace {

Picoseconds start_of(const RunResult& result, const IterationTime& time) {
  return result.world.virtual_time ? time.start_ps : time.start_ps - result.iteration_times.front().start_ps;
}

Section iterations_shape() {
  Section section{.title = "Iterations"};
  section.with(Table{
      .key = "iteration_times",
      .meaning = "the timed iterations, in order",
      .columns = {number("start_ns", "ns", "since the run's start; since the first iteration if ranks have own clocks"),
                  number("time_ns", "ns", "of the iteration")}});
  return section;
}

void fill_iterations_lines(Section& section, const RunView& run) {
  const RunResult& result = run.result;
  section.blank();
  if (result.iteration_times.empty()) return section.line("no iteration has a time of its own here");
  section.line("{:>9} {:>14} {:>14} {:>9} {:>9} {:>9}", "iteration", "start", "time (us)", "algbw", "busbw", "x bound");
  auto fault = result.simulation.faults.begin();
  const auto add_faults = [&](Picoseconds until_ps) {
    for (; fault != result.simulation.faults.end() && fault->at_ps < until_ps; ++fault) {
      section.line("{:>9} {:>14}  {}", "-", duration_text(fault->at_ps), text_of(run.scenario, fault->step));
    }
  };
  for (std::size_t index = 0; index < result.iteration_times.size(); ++index) {
    const IterationTime& iteration = result.iteration_times[index];
    add_faults(iteration.end_ps);
    const Picoseconds time_ps = iteration.end_ps - iteration.start_ps;
    const auto time = static_cast<double>(time_ps);
    const double algbw_GBps = result.algbw_GBps(time_ps);
    section.line("{:>9} {:>14} {:>14.3f} {:>9.3f} {:>9.3f} {:>9}", index, duration_text(start_of(result, iteration)),
                 time / 1e6, algbw_GBps, algbw_GBps * result.busbw_factor,
                 result.bound_ps > 0 ? fmt::format("{:.3f}", time / static_cast<double>(result.bound_ps)) : "-");
  }
  add_faults(result.simulation.elapsed_ps + 1);
}

void fill_iterations(Section& section, const RunView& run) {
  for (const IterationTime& time : run.result.iteration_times) {
    section.table("iteration_times")
        .add({static_cast<double>(start_of(run.result, time)) / 1e3,
              static_cast<double>(time.end_ps - time.start_ps) / 1e3});
  }
  if (run.each_iteration) fill_iterations_lines(section, run);
}

const RunSection iterations_here(700, iterations_shape, fill_iterations);

}  // namespace
}  // namespace meshbed::testbed::document

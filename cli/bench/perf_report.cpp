// The output of a sweep: nccl-tests' preamble, its table, the same as JSON, and as a plot.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/bench/perf_sweep.h"
#include "models/time/machine.h"
#include "testbed/base/units.h"
#include "testbed/plot/plot.h"
#include "testbed/render/render.h"
#include "testbed/result/run_document.h"
#include "testbed/result/software_section.h"
#include "testbed/result/verdict.h"
#include "testbed/scenario/cluster_lines.h"
#include "testbed/scenario/placement.h"

namespace meshbed::testbed {
namespace {

nlohmann::ordered_json placement_json(const CollectiveShape& shape, const CaseResults& board, double bus_factor) {
  const auto time_ps = static_cast<double>(board.average_ps());
  const double algbw_GBps = time_ps > 0 ? static_cast<double>(shape.bytes) / time_ps * 1e3 : 0;
  return {{"time_ns", time_ps / 1e3},
          {"algbw_GBps", algbw_GBps},
          {"busbw_GBps", algbw_GBps * bus_factor},
          {"wrong", board.checked > 0 ? nlohmann::ordered_json(board.wrong) : nullptr}};
}

/// nccl-tests' lines on what follows what (its src/util.cu, writeDeviceReport).
std::string pacing_lines(const PerfOptions& options) {
  std::string text;
  switch (options.pacing.wait) {
    case Pacing::Wait::kQueued:
      break;
    case Pacing::Wait::kBarrier:
      text += "# Blocking Enabled: wait and barrier after each inner iteration (-m) \n";
      break;
    case Pacing::Wait::kOwn:
      text += "# Blocking Enabled: wait after each inner iteration (-m), no barrier \n";
      break;
    case Pacing::Wait::kTogether:
      if (options.pacing.is_plain()) break;
      text += "# Blocking Enabled: wait and barrier after each outer iteration (-n); time excludes barrier \n";
      break;
  }
  if (!options.pacing.is_plain() && options.checks > 0) {
    text += fmt::format("# checked {} for each size after what is timed, not every iteration\n",
                        options.checks == 1 ? "once" : fmt::format("{} times", options.checks));
  }
  for (const std::string& note : options.notes) text += "# " + note + "\n";
  return text;
}

/// "all_reduce of 8 to 4096 B: direct, ll, 2 channels", in the order of the rows; warm-ups left out.
std::vector<std::string> plan_lines(const RunResult& result) {
  std::vector<std::string> lines;
  const auto& operations = result.operations;
  for (std::size_t index = 0; index < operations.size();) {
    const OperationRecord& first = operations[index];
    if (!first.operation.timed) {
      ++index;
      continue;
    }
    std::uint64_t last_bytes = first.operation.bytes;
    std::size_t next = index + 1;
    for (; next < operations.size(); ++next) {
      const OperationRecord& other = operations[next];
      if (other.operation.timed && (other.plan != first.plan || other.operation.bytes < last_bytes)) break;
      if (other.operation.timed) last_bytes = other.operation.bytes;
    }
    index = next;
    lines.push_back(fmt::format("{} of {}{} B: {}, {}, {}", first.operation.name, first.operation.bytes,
                                last_bytes != first.operation.bytes ? fmt::format(" to {}", last_bytes) : "",
                                first.plan.algorithm, first.plan.protocol,
                                counted(static_cast<std::uint64_t>(first.plan.channels), "channel")));
  }
  return lines;
}

/// Of the largest size, in place.
document::Section largest_software(const Scenario& scenario, const std::vector<SizeRun>& runs) {
  return document::software_section(scenario, &runs.back().in_place, runs.back().in_place_board.average_ps());
}

PerfColumns columns_of(const PerfOptions& options) {
  return {.check = options.checks > 0, .iterations = options.per_iteration};
}

}  // namespace

double average_busbw(const std::vector<SizeRun>& runs, double bus_factor) {
  double sum = 0;
  for (const SizeRun& run : runs) {
    for (const CaseResults* board : {&run.out_of_place_board, &run.in_place_board}) {
      const auto time_ps = static_cast<double>(board->average_ps());
      if (time_ps > 0) sum += static_cast<double>(run.shape.bytes) / time_ps * 1e3 * bus_factor;
    }
  }
  return sum / (2.0 * static_cast<double>(runs.size()));
}

std::string sweep_preamble(const PerfOptions& options, const Scenario& scenario, const WorldFacts& world) {
  const SweepOptions& sweep = options.sweep;
  std::string text = fmt::format(
      "# seed {}  scenario {}  world {}\n# {}{}\n# Collective test starting: {}_perf\n# nThread 1 nGpus 1 minBytes {} "
      "maxBytes {} step: {}({}) "
      "warmup iters: "
      "{} iters: {} agg iters: {} validation: {} graph: {} unalign: 0\n{}#\n# Using devices\n",
      scenario.seed, scenario.name, world.name, topology_line(scenario),
      world.virtual_time ? fmt::format(", fabric {}", fabric_name(scenario)) : "", models::name_of(options.op),
      sweep.min_bytes, sweep.max_bytes, sweep.step_factor > 1 ? sweep.step_factor : sweep.step_bytes,
      sweep.step_factor > 1 ? "factor" : "bytes", options.warmup, options.iterations, options.pacing.operations,
      options.checks, options.graph_launches, pacing_lines(options));
  constexpr int kRanksShown = 16;
  for (int rank = 0; rank < std::min(ranks_of(scenario), kRanksShown); ++rank) {
    const models::Node& node = scenario.cluster.at(node_of(scenario, rank));
    text += fmt::format("#  Rank {:>2} on {:>10} with {}\n", rank, node.name, counted(node.nics.size(), "NIC"));
  }
  if (ranks_of(scenario) > kRanksShown) text += fmt::format("#  ... and {} more\n", ranks_of(scenario) - kRanksShown);
  return text;
}

std::string sweep_heading(const PerfOptions& options) { return perf_heading(columns_of(options)); }

std::string sweep_row(const PerfOptions& options, const Scenario& scenario, const SizeRun& run) {
  return perf_row(run.out_of_place, run.shape, run.out_of_place_board, run.in_place_board,
                  models::bus_factor(options.op, ranks_of(scenario)), columns_of(options));
}

std::string sweep_findings(const Scenario& scenario, const RunResult& result, const std::vector<SizeRun>& runs) {
  std::string text;
  if (scenario.software.machine != nullptr) {
    for (const std::string& line : text_lines(largest_software(scenario, runs))) text += "# " + line + "\n";
    for (const SizeRun& run : runs) {
      text += fmt::format("# {:>12} bytes in place: {}\n", run.shape.bytes,
                          document::time_with_error(scenario, run.in_place, run.in_place_board.average_ps()));
    }
    text += "#\n";
  }
  text += fmt::format("# {:<20} : {}\n# {:<20} : {:g} \n#\n", "Out of bounds values",
                      result.checked == 0 ? "N/A (not checked)"
                                          : fmt::format("{} {}", result.wrong, result.wrong == 0 ? "OK" : "FAILED"),
                      "Avg bus bandwidth", average_busbw(runs, result.busbw_factor));
  for (const std::string& line : plan_lines(result)) text += "# " + line + "\n";
  for (const sim::Proof& proof : result.proofs) {
    text += fmt::format("# proof {} {}: {}\n", mark_of(proof), proof.name, proof.detail);
  }
  return text;
}

std::string sweep_closing(const RunResult& result) {
  std::string text = fmt::format("# {:.2f} CPU s\n", result.cpu_s);
  if (!result.world.virtual_time) {
    text += fmt::format("# wall-clock times, of the rank that took longest; {} in all\n",
                        duration_text(result.simulation.elapsed_ps));
  }
  if (const std::string verdict = verdict_line(result); !verdict.empty()) text += "# " + verdict + "\n";
  return text + fmt::format("# digest {}\n", result.digest);
}

nlohmann::ordered_json sweep_json(const Scenario& scenario, const RunResult& result, const std::vector<SizeRun>& runs) {
  nlohmann::ordered_json json = json_of(document::run_document({.scenario = scenario, .result = result}));
  if (scenario.software.machine != nullptr) json["software"] = json_of(largest_software(scenario, runs));
  json["rows"] = nlohmann::ordered_json::array();
  for (const SizeRun& run : runs) {
    json["rows"].push_back(
        {{"size", run.shape.bytes},
         {"count", run.shape.count},
         {"type", name_of(run.in_place.type)},
         {"redop", reduction_text(run.in_place)},
         {"root", run.in_place.root},
         {"bound_ns", run.bound_ps > 0 ? nlohmann::ordered_json(static_cast<double>(run.bound_ps) / 1e3) : nullptr},
         {"out_of_place", placement_json(run.shape, run.out_of_place_board, result.busbw_factor)},
         {"in_place", placement_json(run.shape, run.in_place_board, result.busbw_factor)}});
  }
  return json;
}

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

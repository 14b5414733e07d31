#include "cli/command/tools/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <ostream>

#include "cli/bench/bench_measure.h"
#include "cli/bench/perf_format.h"
#include "cli/command/commands.h"
#include "cli/common/run_options.h"
#include "models/time/machine.h"
#include "plugin/base/collective.h"
#include "plugin/coll/plan/algorithm_choice.h"
#include "plugin/coll/plan/schedule.h"
#include "plugin/coll/plan/torus_shape.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/interruption.h"
#include "testbed/plot/plot.h"
#include "testbed/scenario/placement.h"
#include "testbed/scenario/scenario.h"
#include "testbed/workload/workload.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

/// Those that a table of NCCL's tuner has, by their numbers.
std::vector<Collective> tuned_collectives() {
  std::vector<Collective> tuned;
  for (int number = 0; number < kCollectiveCount; ++number) {
    const auto collective = static_cast<Collective>(number);
    if (!info_of(collective).tuner_name.empty()) tuned.push_back(collective);
  }
  return tuned;
}

struct TuneOptions {
  RunOptions run;
  SweepOptions sweep{.min_bytes = 64, .max_bytes = 16 * kMiB, .step_factor = 16};
  std::string out_path;
  std::string plot;
};

struct KnownCabling {
  bool cables = false, shape = false;
};

/// Every way that the collective can go on this cabling; the simplest first, which keeps what others do not beat.
std::vector<coll::AlgorithmProtocol> ways_of(coll::Collective collective, const KnownCabling& known) {
  std::vector<coll::AlgorithmProtocol> ways;
  for (int protocol = 0; protocol < coll::kProtocols; ++protocol) {
    for (int each = 0; each < coll::kAlgorithms; ++each) {
      const auto algorithm = static_cast<coll::Algorithm>(each);
      const bool is_ring = algorithm == coll::Algorithm::kRing;
      if (!is_ring && !coll::has_schedule(algorithm, collective)) continue;
      if (algorithm == coll::Algorithm::kMesh && !known.cables) continue;
      if (algorithm == coll::Algorithm::kTorus && !known.shape) continue;
      ways.push_back({algorithm, static_cast<coll::Protocol>(protocol)});
    }
  }
  return ways;
}

Scenario scenario_with(const TuneOptions& options, const char* collective, const coll::AlgorithmProtocol& way,
                       std::uint64_t bytes) {
  std::vector<std::string> overrides = options.run.overrides;
  for (const auto& [key, value] : {std::pair<const char*, std::string>{"kind", "collective"},
                                   {"collective", collective},
                                   {"bytes", std::to_string(bytes)},
                                   {"algorithm", name_of(way.algorithm)},
                                   {"protocol", name_of(way.protocol)},
                                   {"dtype", "float"},
                                   {"warmup", "1"},
                                   {"iterations", "1"}}) {
    overrides.push_back(fmt::format("workload.{}={}", key, value));
  }
  overrides.emplace_back("workload.tuning=''");  // the one that is there chooses nothing here
  Scenario scenario = read_scenario(options.run.scenario_path, overrides);
  scenario.faults.clear();
  return scenario;
}

std::vector<Winner> find_winners(const TuneOptions& options, Collective tuned, const KnownCabling& known, int ranks,
                                 std::ostream& err) {
  std::vector<Winner> winners;
  const std::uint64_t whole = sizeof(float) * static_cast<std::uint64_t>(ranks);
  for (const std::uint64_t asked : sweep_sizes(options.sweep)) {
    const std::uint64_t bytes = (asked + whole - 1) / whole * whole;  // each rank's share has whole elements
    if (!winners.empty() && winners.back().bytes == bytes) continue;
    double best_us = std::numeric_limits<double>::infinity(), ring_us = 0;
    Winner winner{.bytes = bytes};
    for (const coll::AlgorithmProtocol& way : ways_of(tuned, known)) {
      const std::string name =
          fmt::format("{} of {} bytes by {}, {}", name_of(tuned), bytes, name_of(way.algorithm), name_of(way.protocol));
      const double time_us = simulated_us(scenario_with(options, name_of(tuned), way, bytes), name);
      if (ring_us == 0) ring_us = time_us;
      if (time_us >= best_us) continue;
      best_us = time_us;
      winner = {bytes, way.algorithm, way.protocol};
    }
    winner.time_us = best_us;
    winner.ring_us = ring_us;
    err << fmt::format("{:<15} {:>12} B  {:<17} {:<7} {:10.1f} us; ring, simple: {:10.1f} us\n", name_of(tuned), bytes,
                       name_of(winner.algorithm), name_of(winner.protocol), best_us, ring_us)
        << std::flush;
    winners.push_back(winner);
  }
  return winners;
}

Plot empty_plot(const Scenario& scenario, int ranks) {
  const std::string machine = scenario.software.machine != nullptr ? scenario.software.machine->name : "ideal";
  return {.title = fmt::format("Fastest algorithm and protocol on {}", scenario.name),
          .x = {.title = "message size", .unit = "bytes", .scale = PlotScale::kBytes},
          .y = {.title = "time of one operation", .unit = "us", .scale = PlotScale::kLog},
          .empty_reason = "no size was tried",
          .caption = {"Markers: the fastest. Lines without markers: the ring by the protocol simple.",
                      fmt::format("Scenario {}, {} ranks, simulated, profile {}.", scenario.path, ranks, machine)}};
}

void add_series(Plot& plot, Collective collective, const std::vector<Winner>& winners) {
  PlotSeries fastest{.name = fmt::format("{}: fastest", name_of(collective))};
  PlotSeries ring{.name = fmt::format("{}: ring, simple", name_of(collective))};
  for (const Winner& winner : winners) {
    const auto bytes = static_cast<double>(winner.bytes);
    fastest.marks.push_back({bytes, winner.time_us});
    fastest.line.push_back({bytes, winner.time_us});
    ring.line.push_back({bytes, winner.ring_us});
  }
  plot.series.push_back(std::move(fastest));
  plot.series.push_back(std::move(ring));
}

}  // namespace

coll::TuningTable rows_of(coll::Collective collective, int ranks, const std::vector<Winner>& winners) {
  coll::TuningTable rows;
  std::uint64_t begin = 0;
  for (const Winner& winner : winners) {
    const bool goes_on =
        !rows.empty() && rows.back().algorithm == winner.algorithm && rows.back().protocol == winner.protocol;
    if (!goes_on) {
      rows.push_back({.collective = collective,
                      .bytes_min = begin,
                      .algorithm = winner.algorithm,
                      .protocol = winner.protocol,
                      .ranks = ranks});
    }
    rows.back().bytes_max = winner.bytes;
    begin = winner.bytes + 1;
  }
  if (!rows.empty()) rows.back().bytes_max = std::numeric_limits<std::int64_t>::max();
  return rows;
}

int tune_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  TuneOptions options;
  std::vector<std::string> collectives;
  std::string min_text = "64", max_text = "16M", factor_text = "16";
  Syntax syntax("tune SCENARIO [options]");
  syntax.operands.add_options()  //
      ("scenario", po::value(&options.run.scenario_path)->required()->value_name("SCENARIO"), "whose cabling it is");
  syntax.positions.add("scenario", 1);
  syntax.options.add_options()                                                                                        //
      ("collective", po::value(&collectives)->value_name("NAME"), "this one; may be repeated; default: all of them")  //
      ("minbytes,b", po::value(&min_text)->value_name("SIZE")->default_value(min_text), "smallest; K, M, G")          //
      ("maxbytes,e", po::value(&max_text)->value_name("SIZE")->default_value(max_text), "largest")                    //
      ("stepfactor,f", po::value(&factor_text)->value_name("N")->default_value(factor_text),
       "multiply the size by this, at least 2")                                                               //
      ("set", po::value(&options.run.overrides)->value_name("KEY=VALUE"), "override a key; may be repeated")  //
      ("out", po::value(&options.out_path)->value_name("FILE"), "write the table there; default: standard output");
  syntax.options.add_options()  //
      ("plot", po::value(&options.plot)->value_name("FILE.svg|png"),
       "also draw the fastest way's time over sizes, beside that of the ring");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  if (!options.plot.empty()) require_plot_file("--plot", options.plot);
  options.sweep.min_bytes = parse_size(min_text);
  options.sweep.max_bytes = parse_size(max_text);
  constexpr std::uint64_t kFactorMax = 1 << 20;
  options.sweep.step_factor = parse_count("-f", factor_text, 2, kFactorMax);
  std::vector<std::string> accepted;
  for (const Collective each : tuned_collectives()) accepted.emplace_back(name_of(each));
  for (const std::string& name : collectives) require_choice("--collective", "collective to tune", name, accepted);

  // A place where nothing can be written is found out now, not after minutes.
  std::optional<ReplacingFile> table;
  if (!options.out_path.empty()) table.emplace(options.out_path);
  const Interruption interruption(
      "", table ? "the lines above stay, " + options.out_path + " is as it was" : "the lines above stay");
  const Scenario scenario = scenario_with(options, "all_reduce", {coll::Algorithm::kMesh, {}}, kMiB);
  const int ranks = ranks_of(scenario);
  const std::vector<coll::MeshCable> cables = engine_options(scenario, built_files()).cables;
  const KnownCabling known{.cables = !cables.empty(),
                           .shape = !coll::torus_shape(coll::make_mesh(ranks, cables), {}).lengths.empty()};
  Plot plot = empty_plot(scenario, ranks);
  std::string text = coll::tuning_heading();
  text += fmt::format("# {}, {} ranks, simulated: the fastest for each size from {} to {}, times {}\n", scenario.name,
                      ranks, options.sweep.min_bytes, options.sweep.max_bytes, options.sweep.step_factor);
  for (const Collective tuned : tuned_collectives()) {
    const bool wanted =
        collectives.empty() || std::find(collectives.begin(), collectives.end(), name_of(tuned)) != collectives.end();
    if (!wanted) continue;
    const std::vector<Winner> winners = find_winners(options, tuned, known, ranks, err);
    for (const auto& row : rows_of(tuned, ranks, winners)) text += to_text(row);
    add_series(plot, tuned, winners);
  }
  (table ? table->stream() : out) << text;
  if (table) table->publish();
  if (!options.plot.empty()) write_plot("--plot", options.plot, plot);
  return kExitOk;
}

}  // namespace meshbed::testbed

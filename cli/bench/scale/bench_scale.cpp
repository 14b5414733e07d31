#include "cli/bench/scale/bench_scale.h"

// Each point is a process of its own, `meshbed run --mode replay`, as a user starts it; `meshbed --version` is taken
// off its CPU time and its memory. The least of several runs counts: a shared machine's other work only adds.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/bench/bench_measure.h"
#include "cli/bench/callgrind.h"
#include "cli/common/document_output.h"
#include "emu/process.h"
#include "emu/scratch.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/plot/plot.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

constexpr const char* kScaleCommand = "bench scale";
constexpr int kReplayedMost = 65'536;
constexpr int kCountedRanks = 512;                                // whose instructions are counted
constexpr const char* kReplayFunction = "meshbed::sim::replay(";  // sim/replay/replay.h

/// A scenario of scenarios/, and how it is replayed at which numbers of ranks.
struct ScaleSeries {
  const char* name;
  const char* scenario;
  const char* detail;
  bool folds;
  std::vector<int> ranks;
};

const std::vector<ScaleSeries>& all_series() {
  static const std::vector<ScaleSeries> all{
      {"ring", "scale-ring", "data", false, {8, 64, 512, 4096, 8192}},
      {"ring, folded", "scale-ring", "data", true, {512, 4096, 16384, kReplayedMost}},
      {"ring, plugin's messages", "scale-ring", "plugin", false, {8, 64, 512, 4096}},
      {"tree", "scale-tree", "data", false, {64, 512, 4096, kReplayedMost}},
      {"alltoall", "scale-alltoall", "data", false, {64, 512, 4096}},
      {"rails", "scale-rails", "data", false, {64, 512, 4096}}};
  return all;
}

struct ReplayCost {
  double cpu_s = 0, memory_mb = 0;
};

/// `output`: the last run's.
ReplayCost least_cost_of(const std::vector<std::string>& words, std::string& output, int repetitions) {
  constexpr double kMegabyte = 1e6;
  std::optional<ReplayCost> least;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const emu::ProgramResult run = emu::run_program(words);
    if (run.status != 0) {
      throw std::runtime_error(fmt::format("{}: {} ended with status {}: {}", kScaleCommand, fmt::join(words, " "),
                                           run.status, emu::last_line(run.errors)));
    }
    const ReplayCost now{run.cpu_s, static_cast<double>(run.resident_bytes) / kMegabyte};
    least = least ? ReplayCost{std::min(least->cpu_s, now.cpu_s), std::min(least->memory_mb, now.memory_mb)} : now;
    output = run.output;
  }
  return *least;
}

struct ScalePoint {
  const ScaleSeries* series = nullptr;
  int ranks = 0;
  ReplayCost cost;
};

std::vector<std::string> replay_run_of(const std::string& folder, const std::string& scratch, const ScaleSeries& series,
                                       int ranks) {
  return {built_files().command,
          "run",
          fmt::format("{}/{}.toml", folder, series.scenario),
          "--mode",
          "replay",
          "--json",
          "--results",
          scratch + "/results",
          "--set",
          fmt::format("topology.nodes={}", ranks),
          "--set",
          std::string("replay.detail=") + series.detail,
          "--set",
          series.folds ? "fabric.fold=true" : "fabric.fold=false"};
}

/// What a line through the logarithms has as its slope; nothing where fewer than two points can be measured.
std::optional<double> exponent_of(const std::vector<PlotPoint>& points) {
  if (points.size() < 2) return std::nullopt;
  double x_sum = 0, y_sum = 0, xx_sum = 0, xy_sum = 0;
  for (const PlotPoint& point : points) {
    const double x = std::log(point.x), y = std::log(point.y);
    x_sum += x, y_sum += y, xx_sum += x * x, xy_sum += x * y;
  }
  const auto count = static_cast<double>(points.size());
  return (count * xy_sum - x_sum * y_sum) / (count * xx_sum - x_sum * x_sum);
}

/// Of a series: its points that take long enough, or need enough memory, to be measured.
std::vector<PlotPoint> measured(const std::vector<ScalePoint>& points, const ScaleSeries& series,
                                double ReplayCost::*figure, double least) {
  std::vector<PlotPoint> result;
  for (const ScalePoint& point : points) {
    if (point.series != &series || point.cost.*figure < least) continue;
    result.push_back({static_cast<double>(point.ranks), point.cost.*figure});
  }
  return result;
}

constexpr double kCpuLeast_s = 0.02, kMemoryLeast_mb = 2;

std::string exponent_text(std::optional<double> exponent) {
  return exponent ? fmt::format("N^{:.2f}", *exponent) : "too little to fit";
}

document::Document scale_document() {
  using document::integer, document::number, document::text;
  document::Document report = bench_document("scale");
  document::Section& section = report.sections.front();
  section.with({number("version_cpu_s", "s", "of --version, which is taken off"),
                number("version_mb", "MB", "likewise"),
                number("instructions_per_message", "", "of a replayed ring of 512 ranks, callgrind")});
  section.with(
      document::Table{.key = "points",
                      .meaning = "replays, the least of several runs, above --version",
                      .columns = {text("series", "what is replayed").shown("replay", 26, "").left(),
                                  integer("ranks", "", "N").shown("N", 8, ""),
                                  integer("messages", "", "of the schedule").shown("messages", 15, ""),
                                  number("cpu_s", "s", "CPU time").shown("CPU s", 9).rounded(3),
                                  number("memory_mb", "MB", "resident at most").shown("MB", 9).rounded(1),
                                  number("messages_per_cpu_s", "", "simulated, none of what is folded").or_null(),
                                  number("time_us", "us", "the simulated time").shown("time (us)", 16).rounded(3),
                                  document::flag("folded", "one rank stands for all")}});
  section.with(document::Table{.key = "growth",
                               .meaning = "fitted exponents of N",
                               .columns = {text("series", "what is replayed"),
                                           number("cpu", "", "of CPU time; null: too little to measure").or_null(),
                                           number("memory", "", "of memory, likewise").or_null()}});
  return report;
}

void plot_points(const std::string& path, const std::vector<ScalePoint>& points) {
  Plot plot{.title = "Replays of many ranks",
            .x = {.title = "ranks", .unit = "", .scale = PlotScale::kLog},
            .y = {.title = "CPU time", .unit = "s", .scale = PlotScale::kLog}};
  for (const ScaleSeries& series : all_series()) {
    std::vector<PlotPoint> all = measured(points, series, &ReplayCost::cpu_s, 0.001);
    if (!all.empty()) plot.series.push_back({.name = series.name, .marks = all, .line = all});
  }
  plot.empty_reason = "no replay took a millisecond";
  plot.caption = {"above meshbed --version, the least of several runs; meshbed bench scale"};
  write_plot("--plot", path, plot);
}

double instructions_per_message(const std::string& folder, const std::string& scratch) {
  const ScaleSeries& ring = all_series().front();
  const std::string file = scratch + "/callgrind";
  const std::string output = run_under_callgrind(kScaleCommand, file, {toggle_collect(kReplayFunction)},
                                                 replay_run_of(folder, scratch, ring, kCountedRanks));
  double instructions = 0;
  for (const CountedFunction& function : read_callgrind(read_text_file(file))) {
    instructions += static_cast<double>(function.self);
  }
  return instructions / nlohmann::json::parse(output).at("messages").get<double>();
}

}  // namespace

int bench_scale_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  Syntax syntax("bench scale [options]");
  std::string most_text = std::to_string(kReplayedMost), repetitions_text = "3", folder = "scenarios", plot;
  DocumentOutput output;
  syntax.options.add_options()                                                                                    //
      ("most", po::value(&most_text)->value_name("N")->default_value(most_text), "ranks of the largest replays")  //
      ("repetitions", po::value(&repetitions_text)->value_name("N")->default_value(repetitions_text),
       "runs of each, of which the least counts")  //
      ("scenarios", po::value(&folder)->value_name("FOLDER")->default_value(folder),
       "where scale-ring.toml and its like are")  //
      ("plot", po::value(&plot)->value_name("FILE.svg"), "CPU time over ranks");
  output.describe(syntax.options);
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  const auto most = static_cast<int>(parse_count("--most", most_text, 8, kReplayedMost));
  const auto repetitions = static_cast<int>(parse_count("--repetitions", repetitions_text, 1, 100));
  if (!plot.empty()) require_plot_file("--plot", plot);
  const emu::Scratch scratch(std::filesystem::temp_directory_path(), "meshbed-scale");
  std::string printed;
  const ReplayCost version = least_cost_of({built_files().command, "--version"}, printed, repetitions);
  document::Document report = scale_document();
  document::Section& section = report.sections.front();
  std::vector<ScalePoint> points;
  for (const ScaleSeries& series : all_series()) {
    for (const int ranks : series.ranks) {
      if (ranks > most) continue;
      err << fmt::format("{}, {} ranks\n", series.name, ranks) << std::flush;
      const ReplayCost whole =
          least_cost_of(replay_run_of(folder, scratch.path(), series, ranks), printed, repetitions);
      const ReplayCost cost{std::max(0.0, whole.cpu_s - version.cpu_s),
                            std::max(0.0, whole.memory_mb - version.memory_mb)};
      points.push_back({.series = &series, .ranks = ranks, .cost = cost});
      const nlohmann::json summary = nlohmann::json::parse(printed);
      const auto messages = summary.at("messages").get<std::uint64_t>();
      const bool folded = summary.at("folded").get<bool>();
      const bool is_rate_known = !folded && cost.cpu_s >= kCpuLeast_s;
      section.table("points").add({series.name, ranks, messages, cost.cpu_s, cost.memory_mb,
                                   document::known_value(is_rate_known, static_cast<double>(messages) / cost.cpu_s),
                                   summary.at("time_ns").get<double>() / 1e3, folded});
    }
  }
  section.set("version_cpu_s", version.cpu_s);
  section.set("version_mb", version.memory_mb);
  const double instructions = instructions_per_message(folder, scratch.path());
  section.set("instructions_per_message", instructions);
  section.line("replays of all_reduce and alltoall, above --version ({:.3f} CPU s, {:.1f} MB)", version.cpu_s,
               version.memory_mb);
  section.show("points");
  for (const ScaleSeries& series : all_series()) {
    const auto cpu = exponent_of(measured(points, series, &ReplayCost::cpu_s, kCpuLeast_s));
    const auto memory = exponent_of(measured(points, series, &ReplayCost::memory_mb, kMemoryLeast_mb));
    section.table("growth").add({series.name, document::known_value(cpu.has_value(), cpu.value_or(0)),
                                 document::known_value(memory.has_value(), memory.value_or(0))});
    section.line("{}: CPU time {}, memory {}", series.name, exponent_text(cpu), exponent_text(memory));
  }
  section.line("a replayed message of the ring of {} takes {:.1f} instructions", kCountedRanks, instructions);
  if (!plot.empty()) plot_points(plot, points);
  report.sections.push_back(bench_machine());
  output.finish(report, out);
  return kExitOk;
}

}  // namespace meshbed::testbed

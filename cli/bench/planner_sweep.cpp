#include "cli/bench/planner_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cli/bench/bench_measure.h"
#include "plugin/coll/plan/schedule.h"
#include "testbed/scenario/placement.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {
namespace {

/// Of short ones several, on average: ranks that leave the warm-up up to 1 us apart begin the first one so far apart.
constexpr std::uint64_t kSeveralBelowBytes = 1 << 20;

/// More are replayed: the engine's own plan on a model of its connections.
constexpr int kSimulatedRanksMost = 256;

struct SweepPoint {
  const PlannerCabling& cabling;
  models::Collective collective;
  std::uint64_t bytes;
};

double point_time_us(const SweepPoint& what, const char* algorithm, bool replays) {
  const std::string text = fmt::format(
      "{}[workload]\ncollective = \"{}\"\nbytes = {}\nwarmup = 1\niterations = {}\nchannels = {}\nalgorithm = "
      "\"{}\"\n{}",
      what.cabling.toml, name_of(what.collective), what.bytes, what.bytes < kSeveralBelowBytes && !replays ? 5 : 1,
      what.cabling.channels, algorithm, replays ? "[replay]\ndetail = \"plugin\"\n" : "");
  const Scenario scenario = parse_scenario(text, what.cabling.name, {});
  const std::string name = fmt::format("{} by {}", what.cabling.name, algorithm);
  return replays ? replayed_us(scenario, name) : simulated_us(scenario, name);
}

/// The ring does every collective.
bool carries_out(const char* algorithm, models::Collective collective) {
  const coll::AlgorithmChoice choice = *coll::parse_algorithm(algorithm);
  return choice.algorithm == coll::Algorithm::kRing || coll::has_schedule(choice.algorithm, collective);
}

/// Of more ranks these two relay so much where there is no switch that a run takes minutes; and of more than are
/// simulated, one has too many connections.
bool is_measured(const std::string& algorithm, const Scenario& scenario) {
  constexpr int kRanksMost = 64;
  const bool relays_much = ranks_of(scenario) > kRanksMost && scenario.cluster.switches.empty();
  if (algorithm == "direct" && ranks_of(scenario) > kSimulatedRanksMost) return false;
  return !relays_much || (algorithm != "direct" && algorithm != "halving-doubling");
}

constexpr std::array<const char*, 6> kAlgorithms{"ring", "tree", "halving-doubling", "direct", "mesh", "torus"};

document::Table sweep_table() {
  document::Table table{.key = "rows",
                        .meaning = "simulated times of one iteration by every algorithm that has the collective",
                        .columns = {document::text("cabling", "its name").shown("cabling", 18, "").left(),
                                    document::text("collective", "its name").shown("collective", 14).left(),
                                    document::integer("bytes", "B", "of the collective").shown("bytes", 9)}};
  for (const std::string algorithm : kAlgorithms) {
    const std::string title = algorithm == "halving-doubling" ? "halving-d" : algorithm;
    table.columns.push_back(
        document::number(algorithm + "_us", "us", "by this algorithm").or_absent().shown(title, 9).rounded(1));
  }
  table.columns.push_back(document::number("auto_us", "us", "by the engine's choice").shown("auto", 9).rounded(1));
  table.columns.push_back(
      document::number("over_best", "", "auto to the fastest named algorithm").shown("auto/best", 10).rounded(3));
  return table;
}

}  // namespace

bool has_blocks(models::Collective collective) {
  return collective == models::Collective::kAllGather || collective == models::Collective::kReduceScatter;
}

std::uint64_t planner_bytes(const PlannerCabling& cabling, models::Collective collective, std::uint64_t asked_bytes) {
  if (!has_blocks(collective)) return asked_bytes;
  constexpr std::uint64_t kBlockBytes = 16;
  const int ranks = ranks_of(parse_scenario(cabling.toml, cabling.name, {}));
  const std::uint64_t whole = kBlockBytes * static_cast<std::uint64_t>(ranks);
  return (asked_bytes + whole - 1) / whole * whole;
}

void run_planner_sweep(const PlannerSweep& sweep, document::Section& section, const std::function<void()>& show) {
  section.with(sweep_table());
  section.show("rows");
  show();
  double worst = 0;
  const auto measure = [&](const SweepPoint& what) {
    std::vector<document::Value> row{what.cabling.name, std::string(name_of(what.collective)), what.bytes};
    double best = 0;
    const Scenario scenario = parse_scenario(what.cabling.toml, what.cabling.name, {});
    const bool replays = ranks_of(scenario) > kSimulatedRanksMost;
    for (const char* algorithm : kAlgorithms) {
      if (!carries_out(algorithm, what.collective) || !is_measured(algorithm, scenario)) {
        row.emplace_back(nullptr);
        continue;
      }
      double us = 0;
      try {
        us = point_time_us(what, algorithm, replays);
      } catch (const std::runtime_error& error) {
        section.line("{} by {}: {}", what.cabling.name, algorithm, error.what());
        row.emplace_back(nullptr);
        continue;
      }
      row.emplace_back(us);
      best = best == 0 ? us : std::min(best, us);
    }
    const double chosen = point_time_us(what, "auto", replays);
    row.emplace_back(chosen);
    row.emplace_back(chosen / best);
    worst = std::max(worst, chosen / best);
    section.table("rows").add(std::move(row));
    show();
  };
  for (const PlannerCabling& cabling : sweep.cablings) {
    for (const models::Collective collective : sweep.collectives) {
      for (const std::uint64_t bytes : sweep.sizes_bytes) {
        measure({cabling, collective, planner_bytes(cabling, collective, bytes)});
      }
    }
  }
  section.line("auto at its worst: {:.3f} of the fastest", worst);
}

}  // namespace meshbed::testbed

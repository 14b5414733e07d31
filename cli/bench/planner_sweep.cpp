#include "cli/bench/planner_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>
#include <utility>

#include "cli/bench/bench_measure.h"
#include "plugin/coll/plan/schedule.h"
#include "testbed/scenario/placement.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {
namespace {

/// Of short ones several, on average: ranks that leave the warm-up up to 1 us apart begin the first one so far apart.
constexpr std::uint64_t kSeveralBelowBytes = 1 << 20;

struct SweepPoint {
  const PlannerCabling& cabling;
  models::Collective collective;
  std::uint64_t bytes;
};

double point_time_us(const SweepPoint& what, const char* algorithm) {
  const std::string text = fmt::format(
      "{}[workload]\ncollective = \"{}\"\nbytes = {}\nwarmup = 1\niterations = {}\nchannels = {}\nalgorithm = \"{}\"\n",
      what.cabling.toml, name_of(what.collective), what.bytes, what.bytes < kSeveralBelowBytes ? 5 : 1,
      what.cabling.channels, algorithm);
  return simulated_us(parse_scenario(text, what.cabling.name, {}),
                      fmt::format("{} by {}", what.cabling.name, algorithm));
}

/// The ring does every collective.
bool carries_out(const char* algorithm, models::Collective collective) {
  const coll::AlgorithmChoice choice = *coll::parse_algorithm(algorithm);
  return choice.algorithm == coll::Algorithm::kRing || coll::has_schedule(choice.algorithm, collective);
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

nlohmann::json run_planner_sweep(const PlannerSweep& sweep, std::ostream& table) {
  constexpr std::array<const char*, 5> kAlgorithms{"ring", "tree", "halving-doubling", "direct", "mesh"};
  table << "cabling            collective         bytes      ring      tree  halving-d    direct      mesh      auto"
           "  auto/best\n"
        << std::flush;  // a child must not print it again
  nlohmann::json rows = nlohmann::json::array();
  double worst = 0;
  const auto measure = [&](const SweepPoint& what) {
    const std::string collective(name_of(what.collective));
    nlohmann::json row{{"cabling", what.cabling.name}, {"collective", collective}, {"bytes", what.bytes}};
    std::string line = fmt::format("{:<18} {:<14} {:>9}", what.cabling.name, collective, what.bytes);
    double best = 0;
    for (const char* algorithm : kAlgorithms) {
      if (!carries_out(algorithm, what.collective)) {
        line += fmt::format(" {:>9}", "-");
        continue;
      }
      const double us = point_time_us(what, algorithm);
      row[fmt::format("{}_us", algorithm)] = us;
      best = best == 0 ? us : std::min(best, us);
      line += fmt::format(" {:9.1f}", us);
    }
    const double chosen = point_time_us(what, "auto");
    row["auto_us"] = chosen;
    row["over_best"] = chosen / best;
    worst = std::max(worst, chosen / best);
    table << line << fmt::format(" {:9.1f} {:10.3f}\n", chosen, chosen / best) << std::flush;
    rows.push_back(std::move(row));
  };
  for (const PlannerCabling& cabling : sweep.cablings) {
    for (const models::Collective collective : sweep.collectives) {
      for (const std::uint64_t bytes : sweep.sizes_bytes) {
        measure({cabling, collective, planner_bytes(cabling, collective, bytes)});
      }
    }
  }
  table << fmt::format("auto at its worst: {:.3f} of the fastest\n", worst);
  return rows;
}

}  // namespace meshbed::testbed

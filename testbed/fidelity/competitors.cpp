#include "testbed/fidelity/competitors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "models/fit/calibrate.h"
#include "models/time/collective_time.h"
#include "testbed/fidelity/fidelity.h"

namespace meshbed::testbed {
namespace {

using models::Machine;
using models::MachineParameter;
using models::SweepPoint;

/// Errors of one model over files, each file weighing the same.
struct Score {
  WeightedErrors errors{};
  std::size_t files = 0, points = 0;

  void add(const std::vector<double>& of_file) {
    if (of_file.empty()) return;
    errors.add(of_file);
    ++files;
    points += of_file.size();
  }
  std::string row(const std::string& model, const std::string& fitted) const {
    constexpr double kPercent = 100, kMedian = 0.5, kMost = 0.9;
    return fmt::format("| {} | {} | {} | {} | {:.1f} % | {:.1f} % |\n", model, fitted, files, points,
                       kPercent * errors.percentile(kMedian), kPercent * errors.percentile(kMost));
  }
};

double error_of(double predicted_us, const SweepPoint& point) { return std::abs(predicted_us / point.time_us - 1); }

models::CollectiveAlgorithm algorithm_of(const models::CollectiveCall& call) {
  return call.algorithm.value_or(models::CollectiveAlgorithm::kRing);
}

/// nullopt: the data sheet has no rate.
std::optional<double> closed_form_us(const Machine& machine, const models::CollectiveCall& call) {
  constexpr double kStepUs = 0.5, kBytesPerUsOfGBps = 1e3, kNoLimit = 1e9;
  const double rate_GBps = call.nodes > 1 ? machine[MachineParameter::kNicGBps] * machine[MachineParameter::kNics]
                                          : machine[MachineParameter::kIntraGBps];
  if (rate_GBps >= kNoLimit) return std::nullopt;
  return models::steps_of(call, algorithm_of(call)).all * kStepUs +
         models::sent_bytes(call, algorithm_of(call), machine.cabling) / (rate_GBps * kBytesPerUsOfGBps);
}

models::Sweep collectives_of(const models::Sweep& sweep) {
  models::Sweep kept{.name = sweep.name, .points = {}};
  for (const SweepPoint& point : sweep.points) {
    if (!point.is_message && !point.expert) kept.points.push_back(point);
  }
  return kept;
}

/// Errors of all points but the two of each kind that the line goes through.
std::vector<double> two_point_errors(const models::Sweep& sweep) {
  std::map<std::string, std::vector<SweepPoint>> kinds;
  for (const SweepPoint& point : sweep.points) kinds[models::measured_kind(point)].push_back(point);
  std::vector<double> errors;
  for (auto& [kind, points] : kinds) {
    std::stable_sort(points.begin(), points.end(),
                     [](const SweepPoint& one, const SweepPoint& two) { return one.call.bytes < two.call.bytes; });
    const SweepPoint &first = points.front(), &last = points.back();
    const auto width = static_cast<double>(last.call.bytes - first.call.bytes);
    if (width == 0) continue;
    for (const SweepPoint& point : points) {
      if (&point == &first || &point == &last) continue;
      const double part = static_cast<double>(point.call.bytes - first.call.bytes) / width;
      errors.push_back(error_of(first.time_us + part * (last.time_us - first.time_us), point));
    }
  }
  return errors;
}

struct Scores {
  Score closed_form, cost_table, bare, pooled, loggp, ours, two_points;
};

/// A class's other files, each file left out in turn.
void score_left_out(Scores& scores, const Machine& start, const std::vector<models::Sweep>& sweeps) {
  if (sweeps.size() < 2) return;
  for (std::size_t index = 0; index < sweeps.size(); ++index) {
    std::vector<models::Sweep> others = sweeps;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(index));
    const auto fit = models::calibrate(start, others, "the class without the file");
    if (!fit) continue;
    const std::vector<SweepPoint>& points = sweeps[index].points;
    scores.loggp.add(models::line_errors(models::fit_line(models::points_of(others)), points));
    scores.ours.add(models::errors_of(fit->machine, points));
  }
}

}  // namespace

std::string competitors_section(const std::map<std::string, std::vector<models::Sweep>>& sweeps,
                                const std::vector<Machine>& profiles, const std::vector<models::Peer>& peers) {
  Scores scores;
  for (const Machine& machine : profiles) {
    const auto own = sweeps.find(machine.name);
    if (own == sweeps.end()) continue;
    const Machine bare = models::without_fits(machine);
    const Machine pooled = models::with_pool(bare, peers);
    std::vector<models::Sweep> collectives;
    for (const models::Sweep& sweep : own->second) {
      if (models::Sweep kept = collectives_of(sweep); !kept.points.empty()) collectives.push_back(std::move(kept));
    }
    for (const models::Sweep& sweep : collectives) {
      std::vector<double> closed, table;
      for (const SweepPoint& point : sweep.points) {
        if (const auto us = closed_form_us(bare, point.call)) closed.push_back(error_of(*us, point));
        table.push_back(error_of(models::cost_table_us(bare, point.call), point));
      }
      scores.closed_form.add(closed);
      scores.cost_table.add(table);
      scores.bare.add(models::errors_of(bare, sweep.points));
      scores.pooled.add(models::errors_of(pooled, sweep.points));
      scores.two_points.add(two_point_errors(sweep));
    }
    score_left_out(scores, pooled, collectives);
  }
  return "\n## Beside other models\n\nThe same measured points of collectives, by models of other kinds, each with "
         "what was known of the file or its class. Held out means that no value was fitted to the file; a file weighs "
         "the same whatever its number of points. The closed form is that of analytical simulators on the data "
         "sheet's rate (ASTRA-sim's example networks: 0.5 us a step); NCCL's cost table is what its tuner computes "
         "to choose (src/graph/tuning.cc) with its constants; LogGP has a time a step and a time a byte. \"Two "
         "points\" knows the smallest and the largest size of each kind of the file itself, and is judged by the "
         "sizes between.\n\n"
         "| model | fitted to | files | points | median | p90 |\n|---|---|---|---|---|---|\n" +
         scores.closed_form.row("closed form of a ring", "nothing: data sheet; held out") +
         scores.cost_table.row("NCCL's cost table", "nothing: data sheet; held out") +
         scores.bare.row("Meshbed, uncalibrated", "nothing: data sheet; held out") +
         scores.pooled.row("Meshbed, class unseen", "other classes of the transport; held out") +
         scores.loggp.row("LogGP", "the class's other files; held out") +
         scores.ours.row("Meshbed", "the class's other files; held out") +
         scores.two_points.row("line through two points", "the file's smallest and largest size");
}

}  // namespace meshbed::testbed

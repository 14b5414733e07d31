#include "testbed/fidelity/fidelity.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>

#include "models/fit/calibrate.h"

namespace meshbed::testbed {
namespace {

constexpr double kLargeBytes = 8.0 * static_cast<double>(kMiB);

using CallKind = std::pair<models::Collective, int>;

CallKind call_kind_of(const models::SweepPoint& point) { return {point.call.collective, point.call.ranks}; }

/// The sweeps' points of one kind (`inside`), or all others; empty sweeps left out.
std::vector<models::Sweep> split(const std::vector<models::Sweep>& sweeps, const CallKind& kind, bool inside) {
  std::vector<models::Sweep> parts;
  for (const models::Sweep& sweep : sweeps) {
    models::Sweep part{.name = sweep.name, .points = {}};
    for (const models::SweepPoint& point : sweep.points) {
      if ((call_kind_of(point) == kind) == inside) part.points.push_back(point);
    }
    if (!part.points.empty()) parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace

void WeightedErrors::add(const std::vector<double>& errors) {
  for (const double error : errors) error_and_weight.emplace_back(error, 1 / static_cast<double>(errors.size()));
}

double WeightedErrors::percentile(double part) const {
  std::vector<std::pair<double, double>> sorted = error_and_weight;
  std::sort(sorted.begin(), sorted.end());
  double whole = 0, so_far = 0;
  for (const auto& [error, weight] : sorted) whole += weight;
  for (const auto& [error, weight] : sorted) {
    so_far += weight;
    if (so_far >= part * whole * (1 - 1e-12)) return error;
  }
  return 0;
}

bool is_good_quality(const std::string& quality) {
  return !quality.empty() && (quality.front() == 'A' || quality.front() == 'B');
}

std::vector<LeftOut> leave_one_out(const models::Machine& machine, const std::vector<models::Sweep>& sweeps,
                                   const std::vector<models::Peer>& peers) {
  std::map<CallKind, std::size_t> kinds;
  for (const models::SweepPoint& point : models::points_of(sweeps)) {
    if (!point.is_message) ++kinds[call_kind_of(point)];
  }
  std::vector<LeftOut> all;
  if (kinds.size() < 2) return all;
  const models::Machine start = models::with_pool(models::without_fits(machine), peers);
  for (const auto& [kind, count] : kinds) {
    const std::vector<models::Sweep> others = split(sweeps, kind, false), own = split(sweeps, kind, true);
    const Result<models::Calibration> fit = models::calibrate(start, others, "the class without what is predicted");
    if (!fit) continue;
    LeftOut left{.profile = machine.name,
                 .what = std::string(name_of(kind.first)) + ", " + std::to_string(kind.second) + " ranks",
                 .model = {},
                 .large = {},
                 .naive_median = 0};
    const std::vector<models::SweepPoint> points = models::points_of(own);
    left.model = models::errors_of(fit->machine, points);
    for (std::size_t index = 0; index < points.size(); ++index) {
      if (static_cast<double>(points[index].call.bytes) >= kLargeBytes) left.large.push_back(left.model[index]);
    }
    left.naive_median =
        models::summarise(models::line_errors(models::fit_line(models::points_of(others)), points)).median;
    for (const models::Sweep& other : others) {
      const models::Line line = models::fit_line(other.points);
      left.naive_median = std::min(left.naive_median, models::summarise(models::line_errors(line, points)).median);
    }
    all.push_back(std::move(left));
  }
  return all;
}

OrderCount count_order(const std::vector<Validated>& all) {
  constexpr double kDiffers = 0.10;
  struct Seen {
    double measured, predicted, low, high;
    std::string set_up;
  };
  std::map<std::tuple<models::Collective, int, std::uint64_t>, std::vector<Seen>> groups;
  for (const Validated& validated : all) {
    if (!is_good_quality(validated.file.quality)) continue;
    for (std::size_t index = 0; index < validated.file.rows.size(); ++index) {
      const MeasuredRow& row = validated.file.rows[index];
      if (row.point.is_message) continue;
      const models::CollectiveCall& call = row.point.call;
      groups[{call.collective, call.ranks, call.bytes}].push_back(
          {row.point.time_us, validated.predicted_us[index], validated.intervals[index].low_us,
           validated.intervals[index].high_us, validated.file.name + " " + row.variant});
    }
  }
  OrderCount count;
  for (const auto& [kind, seen] : groups) {
    for (std::size_t first = 0; first < seen.size(); ++first) {
      for (std::size_t second = first + 1; second < seen.size(); ++second) {
        const Seen &one = seen[first], &two = seen[second];
        if (one.set_up == two.set_up) continue;
        const double ratio = one.measured / two.measured;
        if (std::max(ratio, 1 / ratio) <= 1 + kDiffers) continue;
        ++count.pairs;
        const bool is_right =
            (one.measured < two.measured) == (one.predicted < two.predicted) && one.predicted != two.predicted;
        if (is_right) ++count.right;
        if (one.low <= two.high && two.low <= one.high) continue;
        ++count.decided;
        if (is_right) ++count.decided_right;
      }
    }
  }
  return count;
}

}  // namespace meshbed::testbed

#include "models/fit/sweep.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <tuple>

#include "models/time/concurrent_time.h"

namespace meshbed::models {
namespace {

struct Regressors {
  double steps = 1, bytes = 0;
};

Regressors regressors_of(const SweepPoint& point) {
  if (point.is_message) return {1, static_cast<double>(point.call.bytes)};
  // Plain lines know neither trees nor relays.
  return {steps_of(point.call, CollectiveAlgorithm::kRing).all,
          sent_bytes(point.call, CollectiveAlgorithm::kRing, Cabling::kSwitch)};
}

/// Dispatch and combine of both modes, each a number; 0 of other points.
int expert_kind(const SweepPoint& point) {
  if (!point.expert) return 0;
  return 1 + static_cast<int>(point.expert->mode) * 2 + (point.expert->combine ? 1 : 0);
}

ConcurrentTime at_once_time(const Machine& machine, const SweepPoint& point) {
  return concurrent_time(machine, std::vector<CollectiveCall>(static_cast<std::size_t>(point.at_once), point.call));
}

/// Points of one collective and size of job, in order of size.
using Kind = std::tuple<bool, Collective, int, int, bool, bool, int>;
std::map<Kind, std::vector<SweepPoint>> kinds_of(const std::vector<SweepPoint>& points) {
  std::map<Kind, std::vector<SweepPoint>> kinds;
  for (const SweepPoint& point : points) {
    kinds[{point.is_message, point.call.collective, point.call.ranks, point.call.nodes, point.message.latency,
           point.message.read,
           expert_kind(point) + (point.message.both_ways ? 8 : 0) + (point.message.batch > 1 ? 16 : 0) +
               32 * (point.at_once - 1)}]
        .push_back(point);
  }
  for (auto& [kind, of_kind] : kinds) {
    std::stable_sort(of_kind.begin(), of_kind.end(), [](const SweepPoint& left, const SweepPoint& right) {
      return left.call.bytes < right.call.bytes;
    });
  }
  return kinds;
}

double line_us(const Line& line, const SweepPoint& point) {
  const Regressors regressors = regressors_of(point);
  return line.at(regressors.steps, regressors.bytes);
}

double squares(const Line& line, const std::vector<SweepPoint>& points) {
  double sum = 0;
  for (const double error : line_errors(line, points)) sum += error * error;
  return sum;
}

void append(std::vector<double>& to, const std::vector<double>& more) { to.insert(to.end(), more.begin(), more.end()); }

/// Errors of the best pair of lines, below and from some point on; one line where there are too few.
std::vector<double> two_regime_errors(const std::vector<SweepPoint>& points) {
  constexpr std::size_t kFewest = 3;  // a side: a line of two numbers is exact on two
  std::vector<double> best = line_errors(fit_line(points), points);
  double least = squares(fit_line(points), points);
  for (std::size_t split = kFewest; split + kFewest <= points.size(); ++split) {
    const auto at = points.begin() + static_cast<std::ptrdiff_t>(split);
    const std::vector<SweepPoint> below(points.begin(), at), above(at, points.end());
    const Line low = fit_line(below), high = fit_line(above);
    const double sum = squares(low, below) + squares(high, above);
    if (sum >= least) continue;
    least = sum;
    best = line_errors(low, below);
    append(best, line_errors(high, above));
  }
  return best;
}

}  // namespace

std::vector<SweepPoint> points_of(const std::vector<Sweep>& sweeps) {
  std::vector<SweepPoint> points;
  for (const Sweep& sweep : sweeps) points.insert(points.end(), sweep.points.begin(), sweep.points.end());
  return points;
}

bool is_of_kind(const Machine& machine, const SweepPoint& point) {
  const bool is_expert = machine.transport == MachineTransport::kExpert;
  if (point.expert || is_expert) return is_expert && point.expert;
  return (machine.transport == MachineTransport::kMessage) == point.is_message;
}

double predicted_us(const Machine& machine, const SweepPoint& point) {
  if (point.expert) return expert_time(machine, *point.expert).us;
  if (point.at_once > 1) return at_once_time(machine, point).us;
  return point.is_message ? message_us(machine, point.message, point.call.bytes) : collective_us(machine, point.call);
}

double fitted_us(const Machine& machine, const SweepPoint& point) {
  const bool is_collective = !point.expert && !point.is_message && point.at_once == 1;
  return is_collective ? collective_us_of_size(machine, point.call) : predicted_us(machine, point);
}

std::string measured_kind(const SweepPoint& point) {
  if (point.expert) {
    const ExpertCall& call = *point.expert;
    return std::string(call.combine ? "ep_combine " : "ep_dispatch ") + name_of(call.mode) + ", " +
           ranks_text(call.ranks, call.nodes);
  }
  if (point.is_message) return measured_kind(point.message);
  return measured_kind(point.call) + (point.at_once > 1 ? ", " + std::to_string(point.at_once) + " at once" : "");
}

std::string measured_operation(const SweepPoint& point) {
  const std::string kind = measured_kind(point);
  return kind.substr(0, kind.find(','));
}

Interval interval_of(const Machine& machine, const SweepPoint& point, Standing standing, const IntervalTable& table) {
  if (point.at_once > 1) {
    const ConcurrentTime time = at_once_time(machine, point);
    const double alone_us = time.calls.front().alone.us;
    Interval interval = interval_of(machine, point.call, alone_us, standing, table);
    interval.low_us *= time.sharing_us / alone_us;
    interval.high_us *= point.at_once;
    interval.outside += (interval.outside.empty() ? "" : "; ") + std::string("calls at once");
    return interval;
  }
  const double us = predicted_us(machine, point);
  return point.is_message ? interval_of(machine, measured_kind(point), point.call.bytes, us, standing, table)
                          : interval_of(machine, point.call, us, standing, table);
}

std::map<std::string, MeasuredSizes> measured_of(const std::vector<Sweep>& sweeps) {
  std::map<std::string, MeasuredSizes> all;
  for (const Sweep& sweep : sweeps) {
    for (const SweepPoint& point : sweep.points) {
      const std::uint64_t bytes = point.call.bytes;
      const auto [at, is_new] = all.try_emplace(measured_kind(point), MeasuredSizes{bytes, bytes, 0});
      at->second.least_bytes = std::min(at->second.least_bytes, bytes);
      at->second.most_bytes = std::max(at->second.most_bytes, bytes);
      ++at->second.points;
    }
  }
  return all;
}

ErrorSummary summarise(std::vector<double> errors) {
  if (errors.empty()) return {};
  std::sort(errors.begin(), errors.end());
  const auto at = [&](double part) {
    const auto place = static_cast<std::size_t>(std::ceil(part * static_cast<double>(errors.size())));
    return errors.at(std::max<std::size_t>(place, 1) - 1);
  };
  return {at(0.5), at(0.9), errors.back()};
}

std::vector<double> errors_of(const Machine& machine, const std::vector<SweepPoint>& points) {
  std::vector<double> errors;
  errors.reserve(points.size());
  for (const SweepPoint& point : points) errors.push_back(std::abs(predicted_us(machine, point) / point.time_us - 1));
  return errors;
}

Line fit_line(const std::vector<SweepPoint>& points) {
  // Normal equations of u = steps/t and v = W/t against 1.
  double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
  for (const SweepPoint& point : points) {
    const Regressors regressors = regressors_of(point);
    const double u = regressors.steps / point.time_us, v = regressors.bytes / point.time_us;
    uu += u * u, uv += u * v, vv += v * v, u1 += u, v1 += v;
  }
  const double determinant = uu * vv - uv * uv;
  const Line only_steps{uu > 0 ? u1 / uu : 0, 0}, only_bytes{0, vv > 0 ? v1 / vv : 0};
  if (determinant > 1e-12 * uu * vv) {
    const Line both{(u1 * vv - v1 * uv) / determinant, (v1 * uu - u1 * uv) / determinant};
    if (both.step_us >= 0 && both.us_per_byte >= 0) return both;
  }
  return squares(only_steps, points) < squares(only_bytes, points) ? only_steps : only_bytes;
}

std::vector<double> line_errors(const Line& line, const std::vector<SweepPoint>& points) {
  std::vector<double> errors;
  errors.reserve(points.size());
  for (const SweepPoint& point : points) errors.push_back(std::abs(line_us(line, point) / point.time_us - 1));
  return errors;
}

NaiveErrors naive_errors(const Machine& machine, const std::vector<SweepPoint>& points) {
  std::vector<double> own, two;
  for (const auto& [kind, of_kind] : kinds_of(points)) {
    append(own, line_errors(fit_line(of_kind), of_kind));
    append(two, two_regime_errors(of_kind));
  }
  constexpr double kUsPerByteOfGBps = 1e-3;
  const Line carried{machine[MachineParameter::kNaiveStepUs], kUsPerByteOfGBps / machine[MachineParameter::kNaiveGBps]};
  return {std::move(own), line_errors(carried, points), std::move(two)};
}

}  // namespace meshbed::models

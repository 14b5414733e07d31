#include "models/fit/spread.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace meshbed::models {
namespace {

/// What a point says of one value.
struct Say {
  double sensitivity = 0;
  double error = 0;  // of the time, as a logarithm
};

Say say_of(const Machine& machine, MachineParameter parameter, const SweepPoint& point) {
  constexpr double kStep = 0.01;
  Machine more = machine;
  Value value = machine.value_of(parameter);
  value.value *= std::exp(kStep);
  more.set(parameter, std::move(value));
  const double us = predicted_us(machine, point);
  return {.sensitivity = std::log(predicted_us(more, point) / us) / kStep, .error = std::log(point.time_us / us)};
}

/// As logarithms of factors of the value.
std::vector<double> said_factors(const Machine& machine, MachineParameter parameter,
                                 const std::vector<SweepPoint>& points) {
  constexpr double kLeastSensitivity = 0.05;
  std::vector<Say> says;
  double most = kLeastSensitivity;
  for (const SweepPoint& point : points) {
    says.push_back(say_of(machine, parameter, point));
    most = std::max(most, std::abs(says.back().sensitivity));
  }
  std::vector<double> factors;
  for (const Say& say : says) {
    if (std::abs(say.sensitivity) >= most / 2) factors.push_back(say.error / say.sensitivity);
  }
  std::sort(factors.begin(), factors.end());
  return factors;
}

}  // namespace

void add_ranges(const std::vector<Sweep>& sweeps, Calibration* fit) {
  const std::vector<SweepPoint> points = points_of(sweeps);
  for (const MachineParameter parameter : fit->fitted) {
    const bool is_one_of_a_sum = std::any_of(fit->not_apart.begin(), fit->not_apart.end(), [&](const auto& pair) {
      return pair.first == parameter || pair.second == parameter;
    });
    Value value = fit->machine.value_of(parameter);
    if (is_one_of_a_sum || value.value <= 0) continue;
    const std::vector<double> factors = said_factors(fit->machine, parameter, points);
    if (factors.empty()) continue;
    constexpr double kLeftOut = 0.05, kSearch = 0.01;  // at either end
    const auto left_out = static_cast<std::size_t>(kLeftOut * static_cast<double>(factors.size()));
    const double low = std::min(factors[left_out], 0.0) - kSearch;
    const double high = std::max(factors[factors.size() - 1 - left_out], 0.0) + kSearch;
    const ParameterInfo& info = info_of(parameter);
    value.range = {std::max(value.value * std::exp(low), std::min(info.low, value.value)),
                   std::min(value.value * std::exp(high), std::max(info.high, value.value))};
    fit->machine.set(parameter, std::move(value));
  }
}

}  // namespace meshbed::models

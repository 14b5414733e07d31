#include "models/fit/search.h"

#include <algorithm>
#include <cmath>

namespace meshbed::models {
namespace {

/// How far a value of its kind lies from machine to machine, as a logarithm; 0: nothing is expected of it.
double spread_of(MachineParameter parameter) {
  switch (parameter) {
    case MachineParameter::kLaunchUs:
      return 0.8;
    case MachineParameter::kNetLatencyUs:
    case MachineParameter::kNetLlUs:
    case MachineParameter::kNetLl128Us:
    case MachineParameter::kNetSimpleUs:
      return 0.8;
    case MachineParameter::kIntraLlUs:
    case MachineParameter::kIntraLl128Us:
    case MachineParameter::kIntraSimpleUs:
      return 0.6;
    case MachineParameter::kNicFraction:
    case MachineParameter::kTreeFraction:
      return 0.5;
    case MachineParameter::kLlFraction:
    case MachineParameter::kLl128Fraction:
      return 0.7;
    case MachineParameter::kChannelGBps:
      return 0.3;
    case MachineParameter::kIntraGBps:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

void put_fitted(Machine& machine, MachineParameter parameter, double value, Basis basis, const std::string& source) {
  const ParameterInfo& info = info_of(parameter);
  const double scale = std::pow(10.0, 3 - std::floor(std::log10(std::max(value, 1e-9))));
  const double rounded = std::round(value * scale) / scale;
  machine.set(parameter, {std::clamp(rounded, info.low, info.high), basis, source});
}

double descend(Machine& machine, const std::vector<MachineParameter>& free, const LossFunction& loss, Basis basis,
               const std::string& source, double last) {
  constexpr double kFirst = 2.0;
  constexpr int kRoundsMost = 60;
  double least = loss(machine);
  double factor = kFirst;
  for (int round = 0; round < kRoundsMost && factor > last; ++round) {
    const double before = least;
    for (const MachineParameter parameter : free) {
      for (const double step : {factor, 1 / factor}) {
        while (true) {
          Machine moved = machine;
          put_fitted(moved, parameter, std::max(machine[parameter], 1e-3) * step, basis, source);
          const double now = loss(moved);
          if (now >= least * (1 - 1e-6)) break;
          least = now;
          machine = std::move(moved);
        }
      }
    }
    if (least > before * (1 - 1e-3)) factor = std::sqrt(factor);
  }
  return least;
}

double ridge_squares(const Machine& machine, const Machine& expected, const std::vector<MachineParameter>& free) {
  constexpr double kNoLimit = 1e9;
  double sum = 0;
  for (const MachineParameter parameter : free) {
    const double spread = spread_of(parameter);
    // An addition may be nothing at all: it is weighed together with what it is added to.
    const double base = parameter == MachineParameter::kNetLatencyUs ? machine[MachineParameter::kNetLlUs] : 0;
    if (spread == 0 || expected[parameter] + base <= 0 || expected[parameter] >= kNoLimit) continue;
    const double away = std::log((machine[parameter] + base) / (expected[parameter] + base)) / spread;
    sum += away * away;
  }
  return sum;
}

}  // namespace meshbed::models

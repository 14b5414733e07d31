#include "models/fit/calibrate.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <set>
#include <tuple>

#include "models/fit/between.h"
#include "models/fit/groups.h"
#include "models/fit/search.h"

namespace meshbed::models {
namespace {

bool is_known(const Machine& machine, MachineParameter parameter) {
  const auto& value = machine.values.at(static_cast<std::size_t>(parameter));
  return value && value->basis != Basis::kCalibrated && value->basis != Basis::kPooled && value->basis != Basis::kGuess;
}

void put(Machine& machine, MachineParameter parameter, double value, const std::string& source) {
  put_fitted(machine, parameter, value, Basis::kCalibrated, source);
}

/// What a fit is held against.
struct Measured {
  const std::vector<Sweep>& sweeps;
  std::vector<SizesOfKind> kinds;
  const Evidence& evidence;
};

/// What a cost that ends at a size has against it, as a loss. Within the measured sizes one that ends beyond them is
/// one with the rate, and larger sizes would miss it: how far beyond, as a logarithm. Of a ramp that ends among them, a
/// tenth of its part of the longest time: what the rate can explain is the rate's.
double beyond_measured(const Machine& machine, const Evidence& evidence) {
  if (!evidence.collectives || evidence.longest_us <= 0) return 0;
  constexpr double kEndsBefore = 4, kRampEndsBefore = 2, kOfRamp = 0.1;
  const auto is_used = [&](MachineParameter amount) {
    return machine[amount] > 0 && machine.values.at(static_cast<std::size_t>(amount));
  };
  double loss = 0;
  if (is_used(MachineParameter::kFillStages)) {
    loss += std::max(0.0, std::log(machine[MachineParameter::kSliceBytes] * kEndsBefore / evidence.largest_part));
  }
  if (is_used(MachineParameter::kRampDepth)) {
    const double ramp_us = machine[MachineParameter::kRampUs];
    loss += std::max(0.0, std::log(ramp_us * kRampEndsBefore / evidence.longest_us)) +
            kOfRamp * machine[MachineParameter::kRampDepth] * ramp_us / evidence.longest_us;
  }
  return loss;
}

double calibration_loss(const Machine& machine, const Measured& measured) {
  const std::vector<Sweep>& sweeps = measured.sweeps;
  constexpr double kTail = 0.12, kTailWeight = 4;
  double sum = 0;
  for (const Sweep& sweep : sweeps) {
    double of_sweep = 0;
    for (const SweepPoint& point : sweep.points) {
      const double error = std::abs(std::log(fitted_us(machine, point) / point.time_us));
      of_sweep += error + kTailWeight * std::max(0.0, error - kTail);
    }
    sum += of_sweep / static_cast<double>(std::max<std::size_t>(sweep.points.size(), 1));
  }
  return sum / static_cast<double>(std::max<std::size_t>(sweeps.size(), 1)) + excursions(machine, measured.kinds) +
         beyond_measured(machine, measured.evidence);
}

constexpr double kOneNodeGBps = 100;             // where a search for a rate within one node begins
constexpr double kCoarse = 1.05, kFine = 1.004;  // where a search ends: the last factor tried

/// Hops of the other protocols, by what the fitted one takes. Between nodes the rest of a long hop is the transport's
/// and the same for each (NCCL's latencyInter); within one, and of a short hop, all are as far from what was expected.
void let_follow(Machine& machine, const std::vector<MachineParameter>& free, const Machine& expected,
                const std::string& source) {
  if (machine.transport == MachineTransport::kExpert) return;
  const auto is_free = [&](MachineParameter parameter) {
    return std::find(free.begin(), free.end(), parameter) != free.end();
  };
  const auto lead = [&](MachineParameter leader, std::initializer_list<MachineParameter> followers, bool adds) {
    if (!is_free(leader)) return;
    const bool is_longer = adds && machine[leader] > expected[leader];
    const double factor = is_longer ? 1 : machine[leader] / expected[leader];
    const double more_us = is_longer ? machine[leader] - expected[leader] : 0;
    for (const MachineParameter each : followers) {
      if (!is_free(each) && !is_known(expected, each)) put(machine, each, expected[each] * factor + more_us, source);
    }
  };
  lead(MachineParameter::kNetSimpleUs, {MachineParameter::kNetLlUs, MachineParameter::kNetLl128Us}, true);
  lead(MachineParameter::kIntraSimpleUs, {MachineParameter::kIntraLlUs, MachineParameter::kIntraLl128Us}, false);
}

bool is_time(MachineParameter parameter) { return unit_of_name(info_of(parameter).name) == "us"; }

double search(Machine& machine, const std::vector<MachineParameter>& free, const Measured& measured,
              const Machine& expected, const std::string& source, double last) {
  // Small for many points: their evidence counts more than the expected values. A few points show the cost of a byte,
  // whose shares are known least; a launch and a hop are similar on all machines.
  constexpr double kOfOneSpread = 0.002, kOfOneSpreadAndPoint = 0.3;
  std::vector<MachineParameter> times, shares;
  for (const MachineParameter each : free) (is_time(each) ? times : shares).push_back(each);
  const auto points = static_cast<double>(std::max<std::size_t>(points_of(measured.sweeps).size(), 1));
  const double of_times = std::max(kOfOneSpread, kOfOneSpreadAndPoint / points);
  const auto loss = [&](const Machine& tried) {
    Machine whole = tried;
    let_follow(whole, free, expected, source);
    return calibration_loss(whole, measured) + of_times * ridge_squares(whole, expected, times) +
           kOfOneSpread * ridge_squares(whole, expected, shares);
  };
  const double least = descend(machine, free, loss, Basis::kCalibrated, source, last);
  let_follow(machine, free, expected, source);
  return least;
}

/// The start of a fit. Values of a transport or of other classes for every hop become values for each protocol's hop,
/// and the host's limit becomes a share of the wire, so that hop and share can be fitted.
Machine as_expected(const Machine& machine, const std::string& source) {
  constexpr double kNoLimit = 1e9;
  Machine start = without_calibration(machine);
  const bool is_capped = start[MachineParameter::kHostCapGBps] < kNoLimit;
  if (is_capped && start.transport != MachineTransport::kMessage && !is_known(start, MachineParameter::kHostCapGBps)) {
    const double share = node_GBps(start) / wire_GBps(start);
    if (!is_known(start, MachineParameter::kNicFraction)) put(start, MachineParameter::kNicFraction, share, source);
    put(start, MachineParameter::kHostCapGBps, kNoLimit, source);
  }
  const Value latency = start.value_of(MachineParameter::kNetLatencyUs);
  if (latency.value == 0 || is_known(start, MachineParameter::kNetLatencyUs)) return start;
  put(start, MachineParameter::kNetLatencyUs, 0, source);
  const bool is_pooled = latency.basis == Basis::kPooled;
  for (const MachineParameter parameter :
       {MachineParameter::kNetLlUs, MachineParameter::kNetLl128Us, MachineParameter::kNetSimpleUs}) {
    if (is_known(start, parameter)) continue;
    start.set(parameter, {start[parameter] + latency.value, is_pooled ? Basis::kPooled : Basis::kCalibrated,
                          is_pooled ? latency.source : source});
  }
  return start;
}

/// Where no table chooses: one way only, Simple around a ring, until others pay. Trees stay with the cost table where
/// no all_reduce was measured that could have used one.
void switch_off(Machine& machine, const Evidence& evidence, const std::string& source) {
  for (const MachineParameter threshold :
       {MachineParameter::kLlMaxBytes, MachineParameter::kLl128MaxBytes, MachineParameter::kTreeMaxBytes}) {
    if (threshold == MachineParameter::kTreeMaxBytes && !evidence.trees) continue;
    if (!is_known(machine, threshold)) machine.set(threshold, {1, Basis::kCalibrated, source});
  }
}

/// With the group's parameters free too, from the best of its starts; nothing where none of them is unknown.
std::optional<Calibration> attempt_group(const Calibration& so_far, const Group& group, const Measured& measured,
                                         const Machine& expected, const std::string& source) {
  std::vector<MachineParameter> fresh;
  for (const MachineParameter parameter : group.parameters) {
    const bool has = std::find(so_far.fitted.begin(), so_far.fitted.end(), parameter) != so_far.fitted.end();
    if (!has && !is_known(so_far.machine, parameter)) fresh.push_back(parameter);
  }
  if (fresh.empty()) return std::nullopt;
  std::optional<Calibration> best;
  for (const std::vector<Start>& start : group.starts) {
    Calibration tried = so_far;
    tried.fitted.insert(tried.fitted.end(), fresh.begin(), fresh.end());
    for (const MachineParameter parameter : fresh) put(tried.machine, parameter, tried.machine[parameter], source);
    for (const Start& each : start) {
      if (!is_known(tried.machine, each.parameter)) put(tried.machine, each.parameter, each.value, source);
    }
    tried.loss = search(tried.machine, tried.fitted, measured, expected, source, kCoarse);
    if (!best || tried.loss < best->loss) best = std::move(tried);
  }
  return best;
}

/// Per point, by how much its time's logarithm moves with the value's: all zero where no point feels it.
std::vector<double> sensitivity(const Calibration& fit, MachineParameter parameter, const std::vector<Sweep>& sweeps,
                                const Machine& expected) {
  constexpr double kStep = 1.05;
  const char* const why = "a step of a derivative";
  const Machine& machine = fit.machine;
  Machine moved = machine;
  moved.set(parameter, {machine[parameter] * kStep, Basis::kCalibrated, why});
  let_follow(moved, fit.fitted, expected, why);
  std::vector<double> all;
  for (const Sweep& sweep : sweeps) {
    for (const SweepPoint& point : sweep.points) {
      all.push_back(std::log(fitted_us(moved, point) / fitted_us(machine, point)) / std::log(kStep));
    }
  }
  return all;
}

double dot(const std::vector<double>& one, const std::vector<double>& two) {
  double sum = 0;
  for (std::size_t index = 0; index < one.size(); ++index) sum += one[index] * two[index];
  return sum;
}

std::vector<std::pair<MachineParameter, MachineParameter>> not_apart(const Calibration& fit,
                                                                     const std::vector<Sweep>& sweeps,
                                                                     const Machine& expected) {
  constexpr double kAlike = 0.99;
  std::vector<std::vector<double>> all;
  for (const MachineParameter parameter : fit.fitted) all.push_back(sensitivity(fit, parameter, sweeps, expected));
  std::vector<std::pair<MachineParameter, MachineParameter>> pairs;
  for (std::size_t first = 0; first < all.size(); ++first) {
    for (std::size_t second = first + 1; second < all.size(); ++second) {
      const double lengths = std::sqrt(dot(all[first], all[first]) * dot(all[second], all[second]));
      if (lengths == 0 || std::abs(dot(all[first], all[second])) < kAlike * lengths) continue;
      pairs.emplace_back(fit.fitted[first], fit.fitted[second]);
    }
  }
  return pairs;
}

}  // namespace

Result<Calibration> calibrate(const Machine& machine, const std::vector<Sweep>& sweeps, const std::string& source) {
  const Evidence evidence = evidence_of(machine, sweeps);
  const Measured measured{.sweeps = sweeps, .kinds = sizes_by_kind(sweeps), .evidence = evidence};
  const Machine expected = as_expected(machine, source);
  if (static_cast<int>(evidence.messages) + static_cast<int>(evidence.collectives) +
          static_cast<int>(evidence.experts) >
      1) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .text = "point-to-point files, collectives and expert-parallel files are calibrated apart"};
  }
  Calibration result{.machine = expected,
                     .fitted = {},
                     .loss = 0,
                     .points = evidence.points.size() + evidence.expert_points.size(),
                     .not_apart = {}};
  const double wire_GBps = evidence.nets || evidence.messages ? node_GBps(result.machine) : kOneNodeGBps;
  const std::vector<Group> groups = groups_of(expected, evidence, wire_GBps);
  constexpr std::size_t kPointsPerParameter = 2;
  constexpr std::size_t kFewest = 4;
  if (result.points < kFewest) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .text = "under-determined: " + std::to_string(result.points) + " different points; rate and latency " +
                         "alone need " + std::to_string(kFewest)};
  }
  if (evidence.collectives && !chooses_by_table(machine)) switch_off(result.machine, evidence, source);
  result.loss = calibration_loss(result.machine, measured);
  std::vector<bool> joined(groups.size(), false);
  for (std::size_t index = 0; index < groups.size(); ++index) {
    if (!groups[index].always) continue;
    joined[index] = true;
    const auto attempt = attempt_group(result, groups[index], measured, expected, source);
    if (attempt) result = *attempt;
  }
  result.loss = search(result.machine, result.fitted, measured, expected, source, kFine);
  // Below half a percent there is nothing to explain: times are printed with three or four digits.
  constexpr double kNothingLeft = 0.005;
  // The group that explains most joins first; the rest is judged anew beside it.
  while (result.loss > kNothingLeft) {
    std::optional<Calibration> best;
    double most = 0;
    std::size_t chosen = 0;
    for (std::size_t index = 0; index < groups.size(); ++index) {
      if (joined[index]) continue;
      const auto attempt = attempt_group(result, groups[index], measured, expected, source);
      if (!attempt || attempt->fitted.size() * kPointsPerParameter > attempt->points) continue;
      constexpr double kGainPerParameter = 0.015;
      const auto fresh = static_cast<double>(attempt->fitted.size() - result.fitted.size());
      const double gain = 1 - attempt->loss / result.loss - kGainPerParameter * fresh;
      if (gain <= most) continue;
      most = gain;
      best = attempt;
      chosen = index;
    }
    if (!best) break;
    joined[chosen] = true;
    result = std::move(*best);
    result.loss = search(result.machine, result.fitted, measured, expected, source, kFine);
  }
  result.not_apart = not_apart(result, sweeps, expected);
  result.machine.measured = measured_of(sweeps);
  constexpr double kUsPerByteOfGBps = 1e-3;
  const Line line = fit_line(points_of(sweeps));
  put(result.machine, MachineParameter::kNaiveStepUs,
      std::max(line.step_us, info_of(MachineParameter::kNaiveStepUs).low), source);
  put(result.machine, MachineParameter::kNaiveGBps, kUsPerByteOfGBps / std::max(line.us_per_byte, 1e-8), source);
  return result;
}

}  // namespace meshbed::models

#include "models/fit/calibrate.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <set>
#include <tuple>

#include "models/fit/between.h"
#include "models/fit/search.h"

namespace meshbed::models {
namespace {

struct Start {
  MachineParameter parameter;
  double value;
};

/// Parameters that make sense together only, and where to begin looking.
struct Group {
  std::vector<MachineParameter> parameters;
  std::vector<std::vector<Start>> starts;
  bool always = false;  // fitted whether it pays or not
};

/// What the sweeps hold, which decides what they can determine.
struct Evidence {
  std::set<std::tuple<bool, Collective, int, int, std::uint64_t, bool, bool, bool, bool, int, int, int>> points;
  std::set<double> step_counts;
  std::set<Collective> summed, moved;  // collectives that reduce, and that do not
  bool messages = false, reads = false, collectives = false, latencies = false;
  bool forced_ll = false, rooted = false, rootless = false, gathers = false;
  bool nets = false, one_node = false, shared_nodes = false, trees = false;
  bool eager = false, replayed = false, barriers = false, waves = false, pairs = false, chains = false;
  bool messages_of_calls = false, tested = false, untested = false;
  double smallest = 1e18, largest = 0;
};

constexpr double kShowsHopBytes = 4194304;

Evidence evidence_of(const Machine& machine, const std::vector<Sweep>& sweeps) {
  Evidence evidence;
  for (const Sweep& sweep : sweeps) {
    for (const SweepPoint& point : sweep.points) {
      const CollectiveCall& call = point.call;
      evidence.points.insert({point.is_message, call.collective, call.ranks, call.nodes, call.bytes,
                              point.message.latency, point.message.read, call.eager, call.barrier,
                              call.algorithm ? static_cast<int>(*call.algorithm) : -1,
                              call.protocol ? static_cast<int>(*call.protocol) : -1, call.iterations});
      const auto bytes = static_cast<double>(call.bytes);
      evidence.smallest = std::min(evidence.smallest, bytes);
      evidence.largest = std::max(evidence.largest, bytes);
      if (point.is_message) {
        evidence.messages = true;
        evidence.latencies = evidence.latencies || point.message.latency;
        evidence.reads = evidence.reads || point.message.read;
        continue;
      }
      evidence.collectives = true;
      (call.eager ? evidence.eager : evidence.replayed) = true;
      (is_of_pairs(call) ? evidence.pairs : evidence.chains) = true;
      evidence.barriers = evidence.barriers || call.barrier;
      evidence.messages_of_calls = evidence.messages_of_calls || call.collective == Collective::kSendRecv;
      // Only small calls show what ranks begin apart.
      if (call.iterations == 0) evidence.untested = true;
      evidence.tested = evidence.tested || (call.iterations > 0 && static_cast<double>(call.bytes) <= kShowsHopBytes);
      evidence.waves = evidence.waves || (call.nodes == 1 && (call.algorithm == CollectiveAlgorithm::kDirect ||
                                                              call.algorithm == CollectiveAlgorithm::kTwoShot));
      evidence.step_counts.insert(steps_of(call, CollectiveAlgorithm::kRing).all);
      (reduces(call.collective) ? evidence.summed : evidence.moved).insert(call.collective);
      evidence.forced_ll = evidence.forced_ll || call.protocol == CollectiveProtocol::kLl;
      (has_root(call.collective) ? evidence.rooted : evidence.rootless) = true;
      evidence.gathers = evidence.gathers || call.collective == Collective::kAllGather;
      (call.nodes > 1 ? evidence.nets : evidence.one_node) = true;
      evidence.shared_nodes = evidence.shared_nodes || (call.nodes > 1 && call.ranks > call.nodes);
      evidence.trees = evidence.trees ||
                       (may_tree(call) && call.ranks > 2 && !call.algorithm && machine.cabling == Cabling::kSwitch);
    }
  }
  return evidence;
}

constexpr double kSmallBytes = 65536;  // below: latency shows
constexpr double kShowsRateBytes = 1048576;
constexpr double kOneNodeGBps = 100;     // where a search within one begins
constexpr double kLargeBytes = 4194304;  // above: rate shows

/// A rate's: shares of what the wire carries.
std::vector<std::vector<Start>> rate_starts(MachineParameter rate, double wire_GBps) {
  std::vector<std::vector<Start>> starts;
  for (const double share : {0.04, 0.15, 0.5, 0.9}) starts.push_back({{rate, share * wire_GBps}});
  return starts;
}

std::vector<Group> message_groups(const Evidence& evidence, double wire_GBps) {
  std::vector<Group> groups;
  groups.push_back({{MachineParameter::kHostCapGBps}, rate_starts(MachineParameter::kHostCapGBps, wire_GBps), true});
  if (evidence.latencies) groups.push_back({{MachineParameter::kWireUs}, {{}}, true});
  if (evidence.latencies) groups.push_back({{MachineParameter::kDmaUs}, {{{MachineParameter::kInlineBytes, 64}}, {}}});
  if (!evidence.latencies) groups.push_back({{MachineParameter::kMessageUs}, {{}}, true});
  if (evidence.reads) groups.push_back({{MachineParameter::kReadMessageUs, MachineParameter::kReadFraction}, {{}}});
  groups.push_back({{MachineParameter::kFillStages, MachineParameter::kSliceBytes},
                    {{{MachineParameter::kFillStages, 1}, {MachineParameter::kSliceBytes, 4096}},
                     {{MachineParameter::kFillStages, 1}, {MachineParameter::kSliceBytes, 65536}}}});
  groups.push_back({{MachineParameter::kRendezvousUs, MachineParameter::kRendezvousBytes},
                    {{{MachineParameter::kRendezvousUs, 1}, {MachineParameter::kRendezvousBytes, 2048}},
                     {{MachineParameter::kRendezvousUs, 3}, {MachineParameter::kRendezvousBytes, 16384}}}});
  return groups;
}

std::vector<Start> with(const std::vector<Start>& more, MachineParameter parameter, double value) {
  std::vector<Start> starts = more;
  starts.push_back({parameter, value});
  return starts;
}

/// One start for each threshold in `values`.
std::vector<std::vector<Start>> ladder(MachineParameter threshold, const std::vector<double>& values,
                                       const std::vector<Start>& more = {}) {
  std::vector<std::vector<Start>> starts;
  for (const double value : values) starts.push_back(with(more, threshold, value));
  return starts;
}

/// NCCL's cost table chooses the algorithm of a call; no such table is known for a library's own kernels.
bool chooses_by_table(const Machine& machine) { return machine.transport != MachineTransport::kKernel; }

std::vector<Group> collective_groups(const Evidence& evidence, double wire_GBps, bool by_table) {
  std::vector<Group> groups;
  const MachineParameter rate = evidence.nets ? MachineParameter::kNicFraction : MachineParameter::kIntraGBps;
  const MachineParameter hop = evidence.nets ? MachineParameter::kNetSimpleUs : MachineParameter::kIntraSimpleUs;
  const bool sees_small = evidence.smallest<kSmallBytes, sees_large = evidence.largest> kLargeBytes;
  // What no size shows stays as it is known: a rate among small sizes, a hop among large ones.
  if (evidence.largest >= kShowsRateBytes)
    groups.push_back({{rate}, rate_starts(rate, evidence.nets ? 1 : wire_GBps), true});
  if (evidence.smallest <= kShowsHopBytes) groups.push_back({{hop}, {{}}, true});
  if (evidence.forced_ll) groups.push_back({{MachineParameter::kNetLlUs, MachineParameter::kLlFraction}, {{}}, true});
  // On one count of steps launch and hop are one sum: the ridge shares it between them.
  if (evidence.smallest <= kShowsHopBytes) groups.push_back({{MachineParameter::kLaunchUs}, {{}}, true});
  const std::vector<double> shares{64, 512, 2048, 8192, 32768, 131072, 524288};
  if (evidence.trees) {
    groups.push_back({{MachineParameter::kTreeMaxBytes, MachineParameter::kTreeFraction},
                      ladder(MachineParameter::kTreeMaxBytes, {65536, 524288, 4e6, 1.7e7, 6.7e7, 2.7e8, 1e11})});
  }
  if (by_table) {
    // Ways that the table takes and the library does not: each, and all of them.
    std::vector<MachineParameter> ways{MachineParameter::kLlMaxBytes, MachineParameter::kLl128MaxBytes};
    if (evidence.trees) ways.push_back(MachineParameter::kTreeMaxBytes);
    std::vector<Start> none;
    for (const MachineParameter way : ways) {
      groups.push_back({{way}, ladder(way, {1})});
      none.push_back({way, 1});
    }
    groups.push_back({ways, {none}});
  }
  if (sees_small) {
    const MachineParameter ll = evidence.nets ? MachineParameter::kNetLlUs : MachineParameter::kIntraLlUs;
    const MachineParameter ll128 = evidence.nets ? MachineParameter::kNetLl128Us : MachineParameter::kIntraLl128Us;
    groups.push_back({{MachineParameter::kLlMaxBytes, ll, MachineParameter::kLlFraction},
                      ladder(MachineParameter::kLlMaxBytes, shares)});
    if (by_table)
      groups.push_back({{MachineParameter::kLl128MaxBytes, ll128, MachineParameter::kLl128Fraction},
                        ladder(MachineParameter::kLl128MaxBytes, {8192, 32768, 131072, 524288, 2.1e6, 3.3e7})});
    groups.push_back({{MachineParameter::kLlWindowBytes, MachineParameter::kLlSpillGBps},
                      ladder(MachineParameter::kLlWindowBytes, {256, 4096, 16384, 32768, 65536},
                             {{MachineParameter::kLlSpillGBps, 1}})});
  }
  groups.push_back({{MachineParameter::kFillStages, MachineParameter::kSliceBytes},
                    ladder(MachineParameter::kSliceBytes, {16384, 131072, 1048576, 8388608},
                           {{MachineParameter::kFillStages, 0.7}})});
  if (sees_large) {
    groups.push_back(
        {{MachineParameter::kRampDepth, MachineParameter::kRampUs},
         ladder(MachineParameter::kRampUs, {100, 1000, 10000, 100000}, {{MachineParameter::kRampDepth, 0.3}})});
  }
  if (!evidence.summed.empty() && !evidence.moved.empty()) {
    groups.push_back({{MachineParameter::kReduceGBps}, {{{MachineParameter::kReduceGBps, 100}}}});
    if (evidence.gathers) groups.push_back({{MachineParameter::kCopyGBps}, {{{MachineParameter::kCopyGBps, 100}}}});
  }
  if (evidence.eager && evidence.replayed)
    groups.push_back({{MachineParameter::kEagerUs}, {{{MachineParameter::kEagerUs, 10}}}});
  if (evidence.pairs && evidence.chains) groups.push_back({{MachineParameter::kPairsUs}, {{}}});
  if (!by_table && evidence.messages_of_calls && evidence.chains)
    groups.push_back({{MachineParameter::kPeerUs}, {{{MachineParameter::kPeerUs, 10}}}});
  if (evidence.tested && evidence.untested)
    groups.push_back({{MachineParameter::kSkewUs}, {{{MachineParameter::kSkewUs, 100}}}});
  if (by_table) {
    groups.push_back({{MachineParameter::kChannels, MachineParameter::kChannelGBps},
                      ladder(MachineParameter::kChannels, {2, 4, 8, 16, 32})});
  }
  if (evidence.barriers) groups.push_back({{MachineParameter::kBarrierUs}, {{{MachineParameter::kBarrierUs, 3}}}});
  if (evidence.waves) {
    groups.push_back({{MachineParameter::kWaveBytes, MachineParameter::kWaveUs},
                      ladder(MachineParameter::kWaveBytes, {16384, 65536, 262144}, {{MachineParameter::kWaveUs, 2}})});
  }
  if (evidence.one_node && evidence.rooted && evidence.rootless) {
    groups.push_back({{MachineParameter::kDuplexFraction}, {{{MachineParameter::kDuplexFraction, 0.8}}}});
  }
  return groups;
}

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
};

double calibration_loss(const Machine& machine, const Measured& measured) {
  const std::vector<Sweep>& sweeps = measured.sweeps;
  constexpr double kTail = 0.12, kTailWeight = 4;
  double sum = 0;
  for (const Sweep& sweep : sweeps) {
    double of_sweep = 0;
    for (const SweepPoint& point : sweep.points) {
      const double error = std::abs(std::log(predicted_us(machine, point) / point.time_us));
      of_sweep += error + kTailWeight * std::max(0.0, error - kTail);
    }
    sum += of_sweep / static_cast<double>(std::max<std::size_t>(sweep.points.size(), 1));
  }
  return sum / static_cast<double>(std::max<std::size_t>(sweeps.size(), 1)) + excursions(machine, measured.kinds);
}

constexpr double kCoarse = 1.05, kFine = 1.004;  // where a search ends: the last factor tried

/// Hops of the other protocols, by what the fitted one takes. Between nodes the rest of a long hop is the transport's
/// and the same for each (NCCL's latencyInter); within one, and of a short hop, all are as far from what was expected.
void let_follow(Machine& machine, const std::vector<MachineParameter>& free, const Machine& expected,
                const std::string& source) {
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
      all.push_back(std::log(predicted_us(moved, point) / predicted_us(machine, point)) / std::log(kStep));
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
  const Measured measured{.sweeps = sweeps, .kinds = sizes_by_kind(sweeps)};
  const Machine expected = as_expected(machine, source);
  if (evidence.messages && evidence.collectives) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .text = "point-to-point files and collectives are calibrated apart"};
  }
  Calibration result{.machine = expected, .fitted = {}, .loss = 0, .points = evidence.points.size(), .not_apart = {}};
  const double wire_GBps = evidence.nets || evidence.messages ? node_GBps(result.machine) : kOneNodeGBps;
  const std::vector<Group> groups = evidence.messages
                                        ? message_groups(evidence, wire_GBps)
                                        : collective_groups(evidence, wire_GBps, chooses_by_table(machine));
  constexpr std::size_t kPointsPerParameter = 2;
  constexpr std::size_t kFewest = 4;
  if (result.points < kFewest) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .text = "under-determined: " + std::to_string(result.points) + " different points; rate and latency " +
                         "alone need " + std::to_string(kFewest)};
  }
  if (!evidence.messages && !chooses_by_table(machine)) switch_off(result.machine, evidence, source);
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

#include "models/fit/groups.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace meshbed::models {
namespace {

constexpr double kSmallBytes = 65536;  // below: latency shows
constexpr double kShowsRateBytes = 1048576, kShowsHopBytes = 4194304;
constexpr double kLargeBytes = 4194304;  // above: rate shows
// How times must grow with bytes (Evidence::growth) for a rate to be fitted: of messages, which cost the same until the
// wire is full; of collectives, whose steps each show some of it; and of kernels whose sizes are all small.
constexpr double kShowsRateGrowth = 0.6, kShowsSomeRateGrowth = 0.3, kShowsKernelRateGrowth = 0.45;

/// A rate's: shares of what the wire carries.
std::vector<std::vector<Start>> rate_starts(MachineParameter rate, double wire_GBps) {
  std::vector<std::vector<Start>> starts;
  for (const double share : {0.04, 0.15, 0.5, 0.9}) starts.push_back({{rate, share * wire_GBps}});
  return starts;
}

std::vector<Group> message_groups(const Evidence& evidence, double wire_GBps) {
  std::vector<Group> groups;
  // What no size shows stays as it is known.
  const bool shows_rate = evidence.growth >= kShowsRateGrowth || evidence.batches;
  if (shows_rate) {
    groups.push_back({{MachineParameter::kHostCapGBps}, rate_starts(MachineParameter::kHostCapGBps, wire_GBps), true});
  }
  if (evidence.batches) {
    groups.push_back({{MachineParameter::kLaunchUs}, {{}}, true});
    groups.push_back({{MachineParameter::kMessageUs}, {{}}});
    groups.push_back({{MachineParameter::kRampDepth, MachineParameter::kRampUs},
                      {{{MachineParameter::kRampDepth, 1}, {MachineParameter::kRampUs, 10}},
                       {{MachineParameter::kRampDepth, 0.5}, {MachineParameter::kRampUs, 100}}}});
    if (!evidence.streams) return groups;
  }
  if (evidence.latencies) groups.push_back({{MachineParameter::kWireUs}, {{}}, true});
  if (evidence.latencies) groups.push_back({{MachineParameter::kDmaUs}, {{{MachineParameter::kInlineBytes, 64}}, {}}});
  if (!evidence.latencies) groups.push_back({{MachineParameter::kMessageUs}, {{}}, true});
  if (evidence.reads && shows_rate) {
    groups.push_back({{MachineParameter::kReadMessageUs, MachineParameter::kReadFraction}, {{}}});
  } else if (evidence.reads) {
    groups.push_back({{MachineParameter::kReadMessageUs}, {{}}});
  }
  groups.push_back({{MachineParameter::kFillStages, MachineParameter::kSliceBytes},
                    {{{MachineParameter::kFillStages, 1}, {MachineParameter::kSliceBytes, 4096}},
                     {{MachineParameter::kFillStages, 1}, {MachineParameter::kSliceBytes, 65536}}}});
  groups.push_back({{MachineParameter::kRendezvousUs, MachineParameter::kRendezvousBytes},
                    {{{MachineParameter::kRendezvousUs, 1}, {MachineParameter::kRendezvousBytes, 2048}},
                     {{MachineParameter::kRendezvousUs, 3}, {MachineParameter::kRendezvousBytes, 16384}}}});
  return groups;
}

constexpr double kFewTokens = 64;

/// Dispatch and combine: the ways of models/time/expert_time.h, each where the points can show it.
std::vector<Group> expert_groups(const Machine& machine, const Evidence& evidence) {
  std::vector<Group> groups;
  const bool by_nic = evidence.nets || machine[MachineParameter::kEpByNic] > 0;
  // Thousands of tokens do not show a launch.
  groups.push_back({{MachineParameter::kLaunchUs}, {{}}, evidence.fewest_tokens < kFewTokens});
  if (evidence.nets && evidence.one_node) groups.push_back({{MachineParameter::kNetSimpleUs}, {{}}, true});
  if (by_nic) {
    groups.push_back({{MachineParameter::kNicFraction}, rate_starts(MachineParameter::kNicFraction, 1), true});
  }
  if (evidence.one_node && machine[MachineParameter::kEpByNic] == 0) {
    groups.push_back({{MachineParameter::kDuplexFraction}, {{{MachineParameter::kDuplexFraction, 0.6}}}, true});
  }
  if (by_nic) {
    groups.push_back({{MachineParameter::kEpMessageUs},
                      {{{MachineParameter::kEpMessageUs, 0.05}}, {{MachineParameter::kEpMessageUs, 1}}}});
    groups.push_back(
        {{MachineParameter::kEpPeerUs}, {{{MachineParameter::kEpPeerUs, 0.5}}, {{MachineParameter::kEpPeerUs, 5}}}});
    groups.push_back({{MachineParameter::kEpPeerGBps},
                      {{{MachineParameter::kEpPeerGBps, 0.5}}, {{MachineParameter::kEpPeerGBps, 4}}}});
  }
  groups.push_back({{MachineParameter::kEpSmGBps, MachineParameter::kEpSmTokenUs},
                    {{{MachineParameter::kEpSmGBps, 30}, {MachineParameter::kEpSmTokenUs, 0.2}},
                     {{MachineParameter::kEpSmGBps, 5}, {MachineParameter::kEpSmTokenUs, 1}}}});
  if (evidence.combines && evidence.dispatches) {
    groups.push_back({{MachineParameter::kEpCombineFraction}, {{{MachineParameter::kEpCombineFraction, 0.9}}}});
    groups.push_back({{MachineParameter::kEpCombineCost},
                      {{{MachineParameter::kEpCombineCost, 0.7}}, {{MachineParameter::kEpCombineCost, 1.4}}}});
  }
  if (evidence.through_calls) {
    groups.push_back({{MachineParameter::kEagerUs, MachineParameter::kCopyGBps},
                      {{{MachineParameter::kEagerUs, 20}, {MachineParameter::kCopyGBps, 500}}}});
  }
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

/// `has_ll128`: the library may choose it.
std::vector<Group> collective_groups(const Evidence& evidence, double wire_GBps, double nics, bool by_table,
                                     bool has_ll128) {
  std::vector<Group> groups;
  const MachineParameter rate = evidence.nets ? MachineParameter::kNicFraction : MachineParameter::kIntraGBps;
  const MachineParameter hop = evidence.nets ? MachineParameter::kNetSimpleUs : MachineParameter::kIntraSimpleUs;
  const bool sees_small = evidence.smallest<kSmallBytes, sees_large = evidence.largest> kLargeBytes;
  // What no size shows stays as it is known: a rate among small sizes, a hop among large ones. A library's own kernels
  // have one protocol, whose rate small sizes show as well.
  const bool is_large = evidence.largest >= kShowsRateBytes && evidence.growth >= kShowsSomeRateGrowth;
  const bool shows_rate = is_large || (!by_table && evidence.growth >= kShowsKernelRateGrowth);
  if (shows_rate) groups.push_back({{rate}, rate_starts(rate, evidence.nets ? 1 : wire_GBps), true});
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
    std::vector<MachineParameter> ways{MachineParameter::kLlMaxBytes};
    if (has_ll128) ways.push_back(MachineParameter::kLl128MaxBytes);
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
    if (by_table && has_ll128)
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
  if (std::min(evidence.largest_summed, evidence.largest_moved) >= kShowsRateBytes) {
    groups.push_back({{MachineParameter::kReduceGBps}, {{{MachineParameter::kReduceGBps, 100}}}});
    if (evidence.largest_gathered >= kShowsRateBytes)
      groups.push_back({{MachineParameter::kCopyGBps}, {{{MachineParameter::kCopyGBps, 100}}}});
  }
  if (evidence.eager && evidence.replayed)
    groups.push_back({{MachineParameter::kEagerUs}, {{{MachineParameter::kEagerUs, 10}}}});
  if (evidence.pairs && evidence.chains) groups.push_back({{MachineParameter::kPairsUs}, {{}}});
  if (!by_table && evidence.messages_of_calls && evidence.chains)
    groups.push_back({{MachineParameter::kPeerUs}, {{{MachineParameter::kPeerUs, 10}}}});
  if (evidence.tested && evidence.untested)
    groups.push_back({{MachineParameter::kSkewUs}, {{{MachineParameter::kSkewUs, 100}}}});
  if (by_table) {
    // Each adapter carries one at least.
    std::vector<double> channels{2, 4, 8, 16, 32};
    std::erase_if(channels, [&](double each) { return each < nics; });
    groups.push_back(
        {{MachineParameter::kChannels, MachineParameter::kChannelGBps}, ladder(MachineParameter::kChannels, channels)});
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

/// At the large end, as Evidence::growth: the middle one of the three largest sizes, each beside the next one of half
/// of it or less; where no size is so small, the largest beside the smallest. One size alone says nothing against a
/// rate.
double growth_of(const std::map<double, double>& us_by_bytes) {
  constexpr std::size_t kLargest = 3;
  if (us_by_bytes.size() < 2) return 1;
  const auto between = [](const auto& large, const auto& small) {
    return std::log(large.second / small.second) / std::log(large.first / std::max(small.first, 1.0));
  };
  std::vector<double> all;
  for (auto large = us_by_bytes.rbegin(); large != us_by_bytes.rend() && all.size() < kLargest; ++large) {
    auto half = us_by_bytes.upper_bound(large->first / 2);
    if (half == us_by_bytes.begin()) break;
    all.push_back(between(*large, *std::prev(half)));
  }
  if (all.empty()) return between(*us_by_bytes.rbegin(), *us_by_bytes.begin());
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

/// Of the kind of calls that shows it most; sizes of several files together.
double growth_of(const std::vector<Sweep>& sweeps) {
  // [latency, read, collective, ranks, nodes][bytes]
  std::map<std::tuple<bool, bool, Collective, int, int>, std::map<double, double>> kinds;
  for (const SweepPoint& point : points_of(sweeps)) {
    if (point.expert) continue;
    const CollectiveCall& call = point.call;
    kinds[{point.message.latency, point.message.read, call.collective, call.ranks, call.nodes}]
         [static_cast<double>(call.bytes)] = point.time_us;
  }
  double most = 0;
  for (const auto& [kind, times] : kinds) most = std::max(most, growth_of(times));
  return most;
}

}  // namespace

Evidence evidence_of(const Machine& machine, const std::vector<Sweep>& sweeps) {
  Evidence evidence;
  evidence.growth = growth_of(sweeps);
  for (const Sweep& sweep : sweeps) {
    for (const SweepPoint& point : sweep.points) {
      const CollectiveCall& call = point.call;
      if (point.expert) {
        const ExpertCall& own = *point.expert;
        evidence.experts = true;
        (own.combine ? evidence.combines : evidence.dispatches) = true;
        evidence.through_calls = evidence.through_calls || own.through_call;
        (call.nodes > 1 ? evidence.nets : evidence.one_node) = true;
        evidence.fewest_tokens = std::min(evidence.fewest_tokens, own.tokens);
        evidence.expert_points.insert({own.combine, static_cast<int>(own.mode), call.ranks, call.nodes, own.tokens,
                                       own.token_bytes, own.multiprocessors, own.through_call});
        continue;
      }
      evidence.points.insert({point.is_message, call.collective, call.ranks, call.nodes, call.bytes,
                              point.message.latency, point.message.read || point.message.batch > 0, call.eager,
                              call.barrier, call.algorithm ? static_cast<int>(*call.algorithm) : -1,
                              call.protocol ? static_cast<int>(*call.protocol) : -1, call.iterations});
      const auto bytes = static_cast<double>(call.bytes);
      evidence.smallest = std::min(evidence.smallest, bytes);
      evidence.largest = std::max(evidence.largest, bytes);
      if (point.is_message) {
        evidence.messages = true;
        evidence.latencies = evidence.latencies || point.message.latency;
        evidence.reads = evidence.reads || point.message.read;
        (point.message.batch > 0 ? evidence.batches : evidence.streams) = true;
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
      double& largest = reduces(call.collective) ? evidence.largest_summed : evidence.largest_moved;
      largest = std::max(largest, bytes);
      if (call.collective == Collective::kAllGather)
        evidence.largest_gathered = std::max(evidence.largest_gathered, bytes);
      const CollectiveAlgorithm way = call.algorithm.value_or(CollectiveAlgorithm::kRing);
      const Steps steps = steps_of(call, way);
      const double hops = call.nodes > 1 ? steps.between_nodes : steps.all;
      evidence.largest_part =
          std::max(evidence.largest_part, sent_bytes(call, way, machine.cabling) / std::max(hops, 1.0));
      evidence.longest_us = std::max(evidence.longest_us, point.time_us);
      evidence.forced_ll = evidence.forced_ll || call.protocol == CollectiveProtocol::kLl;
      (has_root(call.collective) ? evidence.rooted : evidence.rootless) = true;
      (call.nodes > 1 ? evidence.nets : evidence.one_node) = true;
      evidence.shared_nodes = evidence.shared_nodes || (call.nodes > 1 && call.ranks > call.nodes);
      evidence.trees = evidence.trees ||
                       (may_tree(call) && call.ranks > 2 && !call.algorithm && machine.cabling == Cabling::kSwitch);
    }
  }
  return evidence;
}

bool chooses_by_table(const Machine& machine) { return machine.transport != MachineTransport::kKernel; }

std::vector<Group> groups_of(const Machine& machine, const Evidence& evidence, double wire_GBps) {
  if (evidence.experts) return expert_groups(machine, evidence);
  if (evidence.messages) return message_groups(evidence, wire_GBps);
  constexpr double kNever = 1;
  const bool has_ll128 = machine[MachineParameter::kLl128MaxBytes] != kNever;
  return collective_groups(evidence, wire_GBps, machine[MachineParameter::kNics], chooses_by_table(machine), has_ll128);
}

}  // namespace meshbed::models

#include "models/time/collective_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "models/time/channels.h"
#include "models/time/interval.h"

namespace meshbed::models {
namespace {

constexpr double kBytesPerUsOfGBps = 1e3;

enum Part {
  kLaunch,
  kEager,
  kBarrier,
  kPairs,
  kPeers,
  kSkew,
  kBetween,
  kWithin,
  kWire,
  kFill,
  kRamp,
  kSpill,
  kWaves,
  kReduce,
  kCopy,
  kPartCount
};
constexpr std::array<const char*, kPartCount> kPartNames{
    "launch", "eager call", "barrier",  "pairs", "peers",  "skew", "hops between nodes", "hops within nodes", "wire",
    "fill",   "ramp",       "LL spill", "waves", "reduce", "copy"};
using Parts = std::array<double, kPartCount>;

struct Way {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kRing;
  CollectiveProtocol protocol = CollectiveProtocol::kSimple;

  bool operator==(const Way&) const = default;
};

double pick(const Machine& machine, CollectiveProtocol protocol, MachineParameter ll, MachineParameter ll128,
            MachineParameter simple) {
  if (protocol == CollectiveProtocol::kLl) return machine[ll];
  return machine[protocol == CollectiveProtocol::kLl128 ? ll128 : simple];
}

/// NCCL's treeCorrectionFactor by log2(bytes / 64), each protocol's: what is lost of a tree's rate at middle sizes.
/// From 1 GiB on nothing is (tuning.cc: only where logSize < 24).
constexpr std::array<std::array<double, 25>, 3> kTreeShares{
    {{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1, 1},
     {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1, 1},
     {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9, 1}}};

/// Between two of them on a line, so that time does not fall where the table steps.
double tree_share(CollectiveProtocol protocol, double bytes) {
  const auto& shares = kTreeShares.at(static_cast<std::size_t>(protocol));
  const double place = std::clamp(std::log2(std::max(bytes, 1.0) / 64), 0.0, static_cast<double>(shares.size() - 1));
  const auto below = std::min(static_cast<std::size_t>(place), shares.size() - 2);
  const double part = place - static_cast<double>(below);
  return shares.at(below) * (1 - part) + shares.at(below + 1) * part;
}

/// What LL moves between nodes at most, a node: NCCL's llMaxBws of Intel's hosts. A fitted share goes before it.
double most_ll_GBps(const Machine& machine, const CollectiveCall& call) {
  constexpr double kTwoNodes = 39.0, kMoreNodes = 20.4, kNoLimit = 1e9;
  if (call.nodes == 1 || machine.values.at(static_cast<std::size_t>(MachineParameter::kLlFraction))) return kNoLimit;
  return call.nodes == 2 ? kTwoNodes : kMoreNodes;
}

/// Without data on the links within a node, a slot of PCIe 3.0 x16: no call is free.
double within_GBps(const Machine& machine) {
  constexpr double kNoLimit = 1e9, kPcieGBps = 13.1;
  const double told = machine[MachineParameter::kIntraGBps];
  return told < kNoLimit ? told : kPcieGBps;
}

/// With the channels that the call's size takes, or with all there are.
enum class Channels : std::uint8_t { kOfSize, kAll };

double rate_GBps(const Machine& machine, const CollectiveCall& call, const Way& way, Channels channels) {
  double rate = call.nodes > 1 ? node_GBps(machine, ranks_of_node(call)) : within_GBps(machine);
  if (call.nodes == 1 && !has_root(call.collective)) rate *= machine[MachineParameter::kDuplexFraction];
  if (call.nodes > 1 && call.ranks > call.nodes) rate = std::min(rate, machine[MachineParameter::kIntraGBps]);
  if (int most = static_cast<int>(std::lround(machine[MachineParameter::kChannels])); most >= 1) {
    if (call.limits.most_channels > 0) most = std::min(most, call.limits.most_channels);
    const double used = channels == Channels::kAll ? most : channels_used(call, way.algorithm, way.protocol, most);
    rate = std::min(rate, used * machine[MachineParameter::kChannelGBps]);
  }
  if (way.protocol == CollectiveProtocol::kLl) {
    // NCCL: 1/3.8 of the rate on a tree, where it is half around a ring.
    constexpr double kOfRing = 2 / 3.8;
    rate *= machine[MachineParameter::kLlFraction] * (way.algorithm == CollectiveAlgorithm::kTree ? kOfRing : 1);
    rate = std::min(rate, most_ll_GBps(machine, call));
  }
  if (way.protocol == CollectiveProtocol::kLl128) rate *= machine[MachineParameter::kLl128Fraction];
  if (way.algorithm == CollectiveAlgorithm::kTree) {
    rate *= machine[MachineParameter::kTreeFraction];
    // NCCL's cost table counts half of the rate for all that is no ring. Simple, measured on two nodes, reaches the
    // whole.
    if (way.protocol != CollectiveProtocol::kSimple) rate /= 2;
  }
  // Shares of one another's rates: none of them makes a wire faster.
  return std::min(rate, call.nodes > 1 ? wire_GBps(machine, ranks_of_node(call)) : within_GBps(machine));
}

double share_bytes(const CollectiveCall& call) { return static_cast<double>(call.bytes) / call.ranks; }

/// A step within a node: around a ring between nodes not shorter than what the host takes to post one.
double within_us(const Machine& machine, const CollectiveCall& call, const Way& way) {
  const double hop_us = pick(machine, way.protocol, MachineParameter::kIntraLlUs, MachineParameter::kIntraLl128Us,
                             MachineParameter::kIntraSimpleUs);
  if (call.nodes == 1 || way.algorithm != CollectiveAlgorithm::kRing) return hop_us;
  constexpr double kPostUs = 1, kSimplePostsUs = 3;  // NCCL's getNetOverhead, of Intel's hosts
  return std::max(hop_us, way.protocol == CollectiveProtocol::kSimple ? kSimplePostsUs : kPostUs);
}

/// What the library runs for the call: some have no plan for calls with a root.
CollectiveCall as_run(const Machine& machine, const CollectiveCall& call) {
  CollectiveCall run = call;
  // NVLink's domain has hosts, and no NIC between them.
  if (machine.transport == MachineTransport::kWithin) run.nodes = 1;
  if (machine[MachineParameter::kRootedAsAll] < 1) return run;
  if (call.collective == Collective::kReduce) run.collective = Collective::kAllReduce;
  if (call.collective == Collective::kBroadcast) {
    run.collective = Collective::kAllGather;
    run.algorithm = CollectiveAlgorithm::kDirect;
    const auto ranks = static_cast<std::uint64_t>(call.ranks);
    run.bytes = std::min(call.bytes, std::numeric_limits<std::uint64_t>::max() / ranks) * ranks;
  }
  return run;
}

/// Messages that a rank sends itself, each a call's; none of a collective, or of a kernel that is everyone's at once.
int peers_of(const CollectiveCall& call) {
  if (call.algorithm == CollectiveAlgorithm::kDirect) return 0;
  if (call.collective == Collective::kSendRecv) return 1;
  return is_of_pairs(call) ? call.ranks - 1 : 0;
}

/// Launch, hops and wire: with all channels what NCCL's cost table knows, which counts none by size.
Parts table_parts(const Machine& machine, const CollectiveCall& call, const Way& way, Channels channels) {
  Parts parts{};
  const Steps steps = steps_of(call, way.algorithm);
  parts[kLaunch] = machine[MachineParameter::kLaunchUs];
  const double hop_us = pick(machine, way.protocol, MachineParameter::kNetLlUs, MachineParameter::kNetLl128Us,
                             MachineParameter::kNetSimpleUs);
  parts[kBetween] = steps.between_nodes * (hop_us + machine[MachineParameter::kNetLatencyUs]);
  parts[kWithin] = (steps.all - steps.between_nodes) * within_us(machine, call, way);
  const bool is_tree = way.algorithm == CollectiveAlgorithm::kTree;
  const double share = is_tree ? tree_share(way.protocol, static_cast<double>(call.bytes)) : 1;
  parts[kWire] = sent_bytes(call, way.algorithm, machine.cabling) /
                 (rate_GBps(machine, call, way, channels) * share * kBytesPerUsOfGBps);
  return parts;
}

double sum_of(const Parts& parts) {
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}

/// If the machine has the threshold: whether `bytes` is below it. nullopt: the cost table decides.
std::optional<bool> by_threshold(const Machine& machine, MachineParameter threshold, double bytes) {
  const double most = machine[threshold];
  constexpr double kNever = 1;  // not for a call of one byte either
  if (most == 0) return std::nullopt;
  return most > kNever && bytes <= most;
}

bool is_refused(std::uint8_t refused, std::size_t index) { return (refused >> index & 1U) != 0; }

/// A stored piece of a message: an eighth of a channel's buffer (NCCL v2.30.7-1, src/include/comm.h, NCCL_STEPS), where
/// none was fitted.
double slice_bytes(const Machine& machine, const CollectiveCall& call) {
  constexpr double kUsualBufferBytes = 4 << 20;
  const double usual = machine[MachineParameter::kSliceBytes];
  const auto& fitted = machine.values.at(static_cast<std::size_t>(MachineParameter::kSliceBytes));
  if (call.limits.buffer_bytes == 0 || fitted) return usual;
  return usual * static_cast<double>(call.limits.buffer_bytes) / kUsualBufferBytes;
}

/// NCCL's sends and receives between nodes have no buffers for LL; a library's own kernels are not NCCL's.
bool has_simple_only(const Machine& machine, const CollectiveCall& call) {
  return call.nodes > 1 && machine.transport != MachineTransport::kKernel &&
         (is_of_pairs(call) || call.collective == Collective::kSendRecv);
}

Way way_of(const Machine& machine, const CollectiveCall& call) {
  const double share = share_bytes(call);
  std::optional<CollectiveAlgorithm> algorithm = call.algorithm;
  const bool is_forced_direct = algorithm == CollectiveAlgorithm::kDirect || algorithm == CollectiveAlgorithm::kTwoShot;
  if (!is_forced_direct && !may_tree(call)) algorithm = CollectiveAlgorithm::kRing;
  if (!algorithm) {
    if (const auto below = by_threshold(machine, MachineParameter::kTreeMaxBytes, static_cast<double>(call.bytes))) {
      algorithm = *below ? CollectiveAlgorithm::kTree : CollectiveAlgorithm::kRing;
    }
  }
  std::array<bool, 3> allowed{true, true, true};
  const auto ll = by_threshold(machine, MachineParameter::kLlMaxBytes, share);
  const auto ll128 = by_threshold(machine, MachineParameter::kLl128MaxBytes, share);
  if (call.protocol) {
    allowed = {};
    allowed.at(static_cast<std::size_t>(*call.protocol)) = true;
  } else if (has_simple_only(machine, call)) {
    allowed = {false, false, true};
  } else if (ll && *ll) {
    allowed = {true, false, false};
  } else if (ll128 && *ll128) {
    allowed = {!ll, true, false};
  } else {
    allowed = {!ll, !ll128, true};
  }
  // What is left of it may be nothing: then all that is not refused competes.
  std::array<bool, 3> left = allowed;
  for (std::size_t index = 0; index < left.size(); ++index) {
    left.at(index) = left.at(index) && !is_refused(call.limits.refused_protocols, index);
  }
  if (std::find(left.begin(), left.end(), true) == left.end() && !call.protocol) {
    for (std::size_t index = 0; index < left.size(); ++index) {
      left.at(index) = !is_refused(call.limits.refused_protocols, index);
    }
  }
  if (std::find(left.begin(), left.end(), true) != left.end()) allowed = left;
  Way best;
  double least = -1;
  for (const CollectiveAlgorithm each : {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kTree,
                                         CollectiveAlgorithm::kDirect, CollectiveAlgorithm::kTwoShot}) {
    const bool is_library = each == CollectiveAlgorithm::kRing || each == CollectiveAlgorithm::kTree;
    if (algorithm ? *algorithm != each : !is_library) continue;
    if (!algorithm && is_refused(call.limits.refused_algorithms, static_cast<std::size_t>(each))) continue;
    for (const CollectiveProtocol protocol :
         {CollectiveProtocol::kSimple, CollectiveProtocol::kLl, CollectiveProtocol::kLl128}) {
      if (!allowed.at(static_cast<std::size_t>(protocol))) continue;
      const double us = sum_of(table_parts(machine, call, {each, protocol}, Channels::kAll));
      if (least >= 0 && us >= least) continue;
      least = us;
      best = {each, protocol};
    }
  }
  return best;
}

/// From one wave of loads to the next: each waits for the one before, which takes a hop within the node.
double wave_us(const Machine& machine) {
  const auto& own = machine.values.at(static_cast<std::size_t>(MachineParameter::kWaveUs));
  return own ? own->value : machine[MachineParameter::kIntraSimpleUs];
}

Parts all_parts(const Machine& machine, const CollectiveCall& call, const Way& way) {
  Parts parts = table_parts(machine, call, way, Channels::kOfSize);
  const Steps steps = steps_of(call, way.algorithm);
  const double share = share_bytes(call);
  const double bytes_per_us = rate_GBps(machine, call, way, Channels::kOfSize) * kBytesPerUsOfGBps;
  if (way.protocol == CollectiveProtocol::kSimple) {
    const double hops = call.nodes > 1 ? steps.between_nodes : steps.all;
    const double per_hop = hops > 0 ? sent_bytes(call, way.algorithm, machine.cabling) / hops : share;
    parts[kFill] =
        hops * machine[MachineParameter::kFillStages] * std::min(per_hop, slice_bytes(machine, call)) / bytes_per_us;
    const double ramp_us = machine[MachineParameter::kRampUs];
    parts[kRamp] = machine[MachineParameter::kRampDepth] * ramp_us * (1 - std::exp(-parts[kWire] / ramp_us));
  }
  if (way.protocol == CollectiveProtocol::kLl) {
    const double beyond = std::max(0.0, share - machine[MachineParameter::kLlWindowBytes]);
    const double sent = sent_bytes(call, way.algorithm, machine.cabling);
    parts[kSpill] =
        beyond / std::max(share, 1.0) * sent / (machine[MachineParameter::kLlSpillGBps] * kBytesPerUsOfGBps);
  }
  if (call.eager) parts[kEager] = machine[MachineParameter::kEagerUs];
  if (is_of_pairs(call) && call.algorithm != CollectiveAlgorithm::kDirect) {
    parts[kPairs] = machine[MachineParameter::kPairsUs];
  }
  parts[kPeers] = peers_of(call) * machine[MachineParameter::kPeerUs];
  if (call.iterations > 0) parts[kSkew] = machine[MachineParameter::kSkewUs] / call.iterations;
  if (call.barrier) parts[kBarrier] = machine[MachineParameter::kBarrierUs];
  if (way.algorithm == CollectiveAlgorithm::kDirect || way.algorithm == CollectiveAlgorithm::kTwoShot) {
    const double loaded = way.algorithm == CollectiveAlgorithm::kDirect ? static_cast<double>(call.bytes) : share;
    parts[kWaves] = (std::ceil(loaded / machine[MachineParameter::kWaveBytes]) - 1) * wave_us(machine);
  }
  if (reduces(call.collective)) {
    const double summed = share * (call.ranks - 1);
    parts[kReduce] = summed / (machine[MachineParameter::kReduceGBps] * kBytesPerUsOfGBps);
  }
  if (call.collective == Collective::kAllGather) {
    parts[kCopy] = static_cast<double>(call.bytes) / (machine[MachineParameter::kCopyGBps] * kBytesPerUsOfGBps);
  }
  return parts;
}

}  // namespace

const char* name_of(CollectiveProtocol protocol) {
  constexpr std::array<const char*, 3> kNames{"LL", "LL128", "Simple"};
  return kNames.at(static_cast<std::size_t>(protocol));
}

const char* name_of(CollectiveAlgorithm algorithm) {
  constexpr std::array<const char*, 4> kNames{"ring", "tree", "direct", "two-shot"};
  return kNames.at(static_cast<std::size_t>(algorithm));
}

bool is_of_pairs(const CollectiveCall& call) { return pattern_of(call.collective) == CollectivePattern::kPairs; }

int ranks_of_node(const CollectiveCall& call) { return (call.ranks + call.nodes - 1) / call.nodes; }

bool may_tree(const CollectiveCall& call) { return call.collective == Collective::kAllReduce && call.nodes > 1; }

Steps steps_of(const CollectiveCall& call, CollectiveAlgorithm algorithm) {
  const double ranks = call.ranks, nodes = call.nodes;
  if (algorithm == CollectiveAlgorithm::kDirect) return {1, nodes > 1 ? 1.0 : 0.0};
  if (algorithm == CollectiveAlgorithm::kTwoShot) return {2, nodes > 1 ? 2.0 : 0.0};
  if (algorithm == CollectiveAlgorithm::kTree) {
    const double levels = std::ceil(std::log2(nodes));
    return {2 * (std::ceil(ranks / nodes) - 1 + levels), 2 * levels};
  }
  if (call.collective == Collective::kAllReduce) return {2 * (ranks - 1), 2 * (nodes - 1)};
  if (is_of_pairs(call) || call.collective == Collective::kSendRecv) return {1, nodes > 1 ? 1.0 : 0.0};
  return {ranks - 1, nodes - 1};
}

double mean_ring_hops(int nodes) {
  if (nodes < 2) return 1;
  const double all = nodes;
  return nodes % 2 == 0 ? all * all / (4 * (all - 1)) : (all + 1) / 4;
}

double sent_bytes(const CollectiveCall& call, CollectiveAlgorithm algorithm, Cabling cabling) {
  const auto bytes = static_cast<double>(call.bytes);
  const double ranks = call.ranks, nodes = call.nodes;
  // Fitted classes of one-shot kernels around a ring count N/4 hops for each pair of nodes.
  const double relayed = cabling == Cabling::kRing && nodes > 3 ? nodes / 4 : 1;
  if (algorithm == CollectiveAlgorithm::kTree) return 2 * bytes * (nodes - 1) / nodes;
  const bool direct = algorithm == CollectiveAlgorithm::kDirect;
  if (call.collective == Collective::kAllReduce) {
    return direct ? bytes * (ranks - 1) * relayed : 2 * bytes * (ranks - 1) / ranks;
  }
  if (is_all_to_all(call.collective)) {
    const double here = nodes > 1 ? ranks / nodes : 1;
    return here * bytes * (ranks - here) / ranks * (cabling == Cabling::kRing ? mean_ring_hops(call.nodes) : 1);
  }
  if (!has_shares(call.collective)) return bytes;
  return bytes * (ranks - 1) / ranks * (direct && !is_of_pairs(call) ? relayed : 1);
}

namespace {

/// What makes a time jump where it changes.
struct Choice {
  Way way;
  int channels = 0;  // 0: the class has none

  bool operator==(const Choice&) const = default;
};

Choice choice_of(const Machine& machine, const CollectiveCall& call) {
  const Way way = way_of(machine, call);
  const int most = static_cast<int>(std::lround(machine[MachineParameter::kChannels]));
  return {way, most < 1 ? 0 : channels_used(call, way.algorithm, way.protocol, most)};
}

/// The least size above `call.bytes`, at most `larger`, that goes by another choice than `call`'s.
std::uint64_t next_choice(const Machine& machine, CollectiveCall call, const Choice& choice, std::uint64_t larger) {
  std::uint64_t below = call.bytes;
  while (larger - below > 1) {
    call.bytes = below + (larger - below) / 2;
    (choice_of(machine, call) == choice ? below : larger) = call.bytes;
  }
  return larger;
}

/// A fit knows its kind and size: a library may well be slower below one of its thresholds.
bool was_measured(const Machine& machine, const CollectiveCall& call) {
  if (machine.measured.empty()) return false;
  const auto found = machine.measured.find(measured_kind(call));
  return found != machine.measured.end() && call.bytes >= found->second.least_bytes &&
         call.bytes <= found->second.most_bytes;
}

/// The call, or a larger one that goes another way and takes less: a library that has both does not take longer for the
/// part than for the whole. Thresholds and tables of one number of ranks, carried to another, would say that it does,
/// and so would a channel more.
CollectiveCall not_slower_than_larger(const Machine& machine, const CollectiveCall& call) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40;
  CollectiveCall best = call, at = call;
  if (was_measured(machine, call)) return best;
  Choice choice = choice_of(machine, call);
  double least = sum_of(all_parts(machine, call, choice.way));
  while (at.bytes < kMostBytes) {
    CollectiveCall larger = at;
    larger.bytes = at.bytes + at.bytes / 8 + 1;
    // No way has less than half of the bytes of a ring of Simple.
    const Way plain{call.algorithm.value_or(CollectiveAlgorithm::kRing), CollectiveProtocol::kSimple};
    if (table_parts(machine, at, plain, Channels::kAll)[kWire] / 2 >= least) break;
    if (!(choice_of(machine, larger) == choice)) {
      larger.bytes = next_choice(machine, at, choice, larger.bytes);
      choice = choice_of(machine, larger);
      const double us = sum_of(all_parts(machine, larger, choice.way));
      if (us < least) {
        least = us;
        best = larger;
      }
    }
    at = larger;
  }
  return best;
}

}  // namespace

CollectiveTime collective_time(const Machine& machine, const CollectiveCall& asked) {
  const CollectiveCall call = not_slower_than_larger(machine, as_run(machine, asked));
  const Way way = way_of(machine, call);
  const Parts parts = all_parts(machine, call, way);
  CollectiveTime time{.protocol = way.protocol, .algorithm = way.algorithm, .parts = {}, .us = sum_of(parts)};
  for (std::size_t part = 0; part < kPartCount; ++part) {
    if (parts.at(part) > 0) time.parts.push_back({kPartNames.at(part), parts.at(part)});
  }
  return time;
}

double collective_us(const Machine& machine, const CollectiveCall& asked) {
  const CollectiveCall call = not_slower_than_larger(machine, as_run(machine, asked));
  return sum_of(all_parts(machine, call, way_of(machine, call)));
}

double collective_us_of_size(const Machine& machine, const CollectiveCall& asked) {
  const CollectiveCall call = as_run(machine, asked);
  return sum_of(all_parts(machine, call, way_of(machine, call)));
}

double cost_table_us(const Machine& machine, const CollectiveCall& asked) {
  const CollectiveCall call = as_run(machine, asked);
  return sum_of(table_parts(machine, call, way_of(machine, call), Channels::kAll));
}

}  // namespace meshbed::models

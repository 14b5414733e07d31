#include "models/time/expert_time.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace meshbed::models {
namespace {

constexpr double kExpertBytesPerUs = 1e3;

/// What a call moves, of one rank.
struct Moved {
  double away = 0;    // copies to other nodes
  double within = 0;  // copies to other ranks of a node over its inner links
  double copies = 0;  // that its GPU makes
};

Moved moved_by(const Machine& machine, const ExpertCall& call, const ExpertTime& time) {
  const double nodes = call.nodes, each_node = std::max(1.0, static_cast<double>(call.ranks) / nodes);
  const double other_nodes = (nodes - 1) / nodes, other_ranks = (each_node - 1) / each_node;
  Moved moved;
  if (call.mode == ExpertMode::kLowLatency) {
    moved.away = call.tokens * call.top_k * other_nodes;
    moved.within = call.tokens * call.top_k / nodes * other_ranks;
    moved.copies = call.tokens * call.top_k;
  } else {
    moved.away = call.tokens * time.nodes_of_token * other_nodes;
    moved.within = call.tokens * time.ranks_of_token * other_ranks;
    moved.copies = call.tokens * (nodes > 1 ? time.nodes_of_token : time.ranks_of_token);
  }
  if (machine[MachineParameter::kEpByNic] > 0) {
    // Each token's message goes to its rank by the NICs, also to ranks of the same node.
    const double others = (call.ranks - 1.0) / call.ranks;
    const double all = call.mode == ExpertMode::kLowLatency ? call.top_k : time.ranks_of_token;
    moved.away = call.tokens * all * others;
    moved.within = 0;
  }
  return moved;
}

double blend(double one, double two, double three) {
  constexpr double kNorm = 4;
  return std::pow(std::pow(one, kNorm) + std::pow(two, kNorm) + std::pow(three, kNorm), 1 / kNorm);
}

}  // namespace

const char* name_of(ExpertMode mode) { return mode == ExpertMode::kLowLatency ? "low latency" : "normal"; }

double distinct_groups(int groups, int experts, int top_k, int most) {
  if (groups <= 1) return 1;
  const double all = experts, each = all / groups;
  double none = 1;  // no expert of one group among the top k
  for (int taken = 0; taken < top_k; ++taken) none *= std::max(0.0, (all - each - taken) / std::max(1.0, all - taken));
  const double distinct = groups * (1 - none);
  if (most <= 0 || most >= groups) return distinct;
  // First `most` groups are chosen, then the experts within these.
  return std::min(distinct, distinct_groups(most, static_cast<int>(std::lround(most * each)), top_k));
}

ExpertTime expert_time(const Machine& machine, const ExpertCall& call) {
  ExpertTime time;
  time.nodes_of_token = distinct_groups(call.nodes, call.experts, call.top_k, call.most_nodes);
  time.ranks_of_token = distinct_groups(call.ranks, call.experts, call.top_k);
  if (call.most_nodes > 0 && call.most_nodes < call.nodes) {
    const int reached = call.ranks / call.nodes * call.most_nodes;
    time.ranks_of_token = distinct_groups(reached, call.experts / call.nodes * call.most_nodes, call.top_k);
  }
  const Moved moved = moved_by(machine, call, time);
  const double cost = call.combine ? machine[MachineParameter::kEpCombineCost] : 1;
  const double faster = call.combine ? machine[MachineParameter::kEpCombineFraction] : 1;
  const double token_bytes = call.token_bytes;
  const bool by_nic = call.nodes > 1 || machine[MachineParameter::kEpByNic] > 0;

  double launch_us = machine[MachineParameter::kLaunchUs] * cost, hop_us = 0, peers_us = 0, nic_us = 0;
  if (by_nic) {
    const double each_node = std::max(1.0, static_cast<double>(call.ranks) / call.nodes);
    const double rank_GBps = node_GBps(machine, static_cast<int>(std::ceil(each_node))) / each_node;
    const double peers = machine[MachineParameter::kEpByNic] > 0 ? call.ranks - 1 : call.ranks - each_node;
    hop_us = machine[MachineParameter::kNetSimpleUs] * cost;
    peers_us = peers * machine[MachineParameter::kEpPeerUs] * cost;
    const double wire_us = moved.away * token_bytes / (rank_GBps * kExpertBytesPerUs);
    // Normal kernels send tokens in chunks.
    const bool posts_each = call.mode == ExpertMode::kLowLatency;
    const double posts_us = posts_each ? moved.away * machine[MachineParameter::kEpMessageUs] * cost : 0;
    const double connection_us =
        moved.away * token_bytes / peers / (machine[MachineParameter::kEpPeerGBps] * kExpertBytesPerUs);
    nic_us = blend(wire_us, posts_us, connection_us);
  }
  const double within_GBps = machine[MachineParameter::kIntraGBps] * machine[MachineParameter::kDuplexFraction];
  const double within_us = moved.within * token_bytes / (within_GBps * faster * kExpertBytesPerUs);
  const double sms = call.multiprocessors > 0 ? call.multiprocessors : machine[MachineParameter::kEpSms];
  const double copy_us = moved.copies *
                         (machine[MachineParameter::kEpSmTokenUs] +
                          token_bytes / (machine[MachineParameter::kEpSmGBps] * kExpertBytesPerUs)) /
                         (sms * faster);
  const double whole_us = blend(nic_us, within_us, copy_us);
  const double longest_us = std::max({nic_us, within_us, copy_us});
  double call_us = 0;
  if (call.through_call) {
    const double exchanged = call.tokens * (call.nodes > 1 ? time.nodes_of_token : time.ranks_of_token);
    call_us = machine[MachineParameter::kEagerUs] +
              exchanged * token_bytes / (machine[MachineParameter::kCopyGBps] * kExpertBytesPerUs);
  }
  const bool to_nodes = call.nodes > 1 && machine[MachineParameter::kEpByNic] == 0;
  const double once = call.counts_once ? 1 / (to_nodes ? time.nodes_of_token : time.ranks_of_token) : 1;
  const auto add = [&](const char* name, double us) {
    time.us += us * once;
    if (us > 0) time.parts.push_back({name, us * once});
  };
  add("launch", launch_us);
  add("hop between nodes", hop_us);
  add("remote ranks", peers_us);
  add(longest_us == nic_us ? "NICs" : longest_us == within_us ? "links within nodes" : "copies by the GPU", longest_us);
  add("overlap", whole_us - longest_us);
  add("framework's call", call_us);
  return time;
}

}  // namespace meshbed::models

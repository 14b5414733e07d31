#include "models/algorithm.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>

#include "models/link.h"

namespace meshbed::models {
namespace {

/// Shares of an all_reduce differ by an element a channel, of which there are 64 at most.
constexpr std::uint64_t kShareSlack = 64;

/// What crosses each hop that is used, at least, in a ring of n ranks; all_reduce: of equal shares.
std::uint64_t hop_payload_bytes(Collective op, std::uint64_t bytes, std::uint64_t n, std::uint64_t element_bytes) {
  switch (op) {
    case Collective::kAllReduce:
      return 2 * (bytes - std::min(bytes, bytes / n + kShareSlack * element_bytes));
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return (n - 1) * (bytes / n);
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kSendRecv:
      return bytes;
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      break;
  }
  return 0;
}

/// How many of the k hops between nodes the longest chain of dependent messages crosses, of n hops in all.
std::uint64_t chain_hops(Collective op, std::uint64_t n, std::uint64_t k) {
  switch (op) {
    case Collective::kAllReduce:
      return k == n ? 2 * (n - 1) : 2 * (k - 1);
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return k - 1;
    case Collective::kBroadcast:
    case Collective::kReduce:
      return k;
    case Collective::kSendRecv:
      return 1;
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      break;
  }
  return 0;
}

/// The last bit of the payload, sent as full packets, arrives at the other end. Nothing to send takes no time.
Picoseconds crossing_ps(std::uint64_t payload_bytes, const RingHop& hop) {
  if (payload_bytes == 0) return 0;
  return wire_time_ps(wire_bytes(payload_bytes, hop.pmtu_bytes, 0), hop.rate_bps) + hop.latency_ps;
}

}  // namespace

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (const CollectiveInfo& each : kCollectives) names.emplace_back(each.name);
  return names;
}

std::optional<Collective> parse_collective(std::string_view name) {
  for (const CollectiveInfo& each : kCollectives) {
    if (name == each.name) return each.collective;
  }
  return std::nullopt;
}

double bus_factor(Collective op, int ranks) {
  const double n = ranks;
  switch (op) {
    case Collective::kAllReduce:
      return 2.0 * (n - 1.0) / n;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kGather:
    case Collective::kScatter:
      return (n - 1.0) / n;
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kSendRecv:
      return 1.0;
  }
  return 1.0;
}

int idle_rank_of(Collective op, int root, int ranks) {
  if (op == Collective::kBroadcast) return (root + ranks - 1) % ranks;
  return op == Collective::kReduce ? root : -1;
}

RingBound ring_bound(Collective op, std::uint64_t bytes, const std::vector<RingHop>& hops, int root,
                     std::uint64_t element_bytes) {
  const std::size_t ranks = hops.size();
  const bool no_ring = pattern_of(op) == CollectivePattern::kPairs;
  if (ranks < 2 || bytes == 0 || no_ring) return {};

  const int idle_rank = idle_rank_of(op, root, static_cast<int>(ranks));
  const std::size_t idle_hop = idle_rank < 0 ? ranks : static_cast<std::size_t>(idle_rank);
  const std::uint64_t payload_bytes = hop_payload_bytes(op, bytes, ranks, element_bytes);
  std::uint64_t between_nodes = 0;
  Picoseconds slowest_hop_ps = 0;
  RingHop together{.rate_bps = 0, .latency_ps = std::numeric_limits<Picoseconds>::max(), .pmtu_bytes = 0};
  for (std::size_t index = 0; index < ranks; ++index) {
    const RingHop& hop = hops[index];
    if (index == idle_hop || hop.rate_bps == 0) continue;
    ++between_nodes;
    slowest_hop_ps = std::max(slowest_hop_ps, crossing_ps(payload_bytes, hop));
    together.rate_bps += hop.rate_bps;
    together.pmtu_bytes = std::max(together.pmtu_bytes, hop.pmtu_bytes);
    together.latency_ps = std::min(together.latency_ps, hop.latency_ps);
  }
  if (between_nodes == 0) return {};

  const auto chain = static_cast<Picoseconds>(chain_hops(op, ranks, between_nodes));
  Picoseconds others_ps = chain * together.latency_ps;
  if (op != Collective::kAllReduce) return {.time_ps = std::max(slowest_hop_ps, others_ps)};
  // Within a node a share moves for nothing: there only equal shares give a bound at all.
  if (between_nodes < ranks) return {.time_ps = std::max(slowest_hop_ps, others_ps), .equal_shares = true};
  others_ps = std::max(others_ps, crossing_ps(2 * (ranks - 1) * bytes, together));
  return {.time_ps = std::max(slowest_hop_ps, others_ps), .equal_shares = slowest_hop_ps > others_ps};
}

namespace {

bool is_even(const std::vector<NodePort>& nodes) {
  return std::all_of(nodes.begin(), nodes.end(),
                     [&](const NodePort& node) { return node.ranks == nodes.front().ranks; });
}

}  // namespace

Picoseconds any_algorithm_bound_ps(Collective op, std::uint64_t bytes, const std::vector<NodePort>& nodes) {
  if (nodes.size() < 2 || bytes == 0) return 0;
  const auto slowest = [&](auto&& bytes_of) {
    Picoseconds worst = 0;
    for (const NodePort& node : nodes) {
      if (node.rate_bps > 0) worst = std::max(worst, wire_time_ps(bytes_of(node), node.rate_bps));
    }
    return worst;
  };
  const auto ranks = static_cast<std::uint64_t>(
      std::accumulate(nodes.begin(), nodes.end(), 0, [](int sum, const NodePort& node) { return sum + node.ranks; }));
  const auto fastest = std::max_element(nodes.begin(), nodes.end(),
                                        [](const NodePort& a, const NodePort& b) { return a.rate_bps < b.rate_bps; });
  switch (op) {
    case Collective::kAllReduce: {
      std::uint64_t rate_bps = 0;
      for (const NodePort& node : nodes) rate_bps += node.rate_bps;
      if (rate_bps == 0) return 0;
      return std::max(wire_time_ps(2 * (nodes.size() - 1) * bytes, rate_bps),
                      slowest([bytes](const NodePort&) { return bytes; }));
    }
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return slowest([&](const NodePort& node) {
        const auto here = static_cast<std::uint64_t>(node.ranks);
        return bytes / ranks * (ranks - here) * (op == Collective::kAllToAll ? here : 1);
      });
    case Collective::kBroadcast:
    case Collective::kReduce:
      // The root receives, or sends, nothing; without knowing it, the fastest node is taken for it.
      return slowest([&](const NodePort& node) { return &node == &*fastest ? 0 : bytes; });
    case Collective::kGather:
    case Collective::kScatter:
      if (!is_even(nodes)) {
        // For a root on any node: the least that it must receive from the others.
        Picoseconds least = std::numeric_limits<Picoseconds>::max();
        for (const NodePort& node : nodes) {
          if (node.rate_bps == 0) return 0;
          const std::uint64_t others = ranks - static_cast<std::uint64_t>(node.ranks);
          least = std::min(least, wire_time_ps(bytes / ranks * others, node.rate_bps));
        }
        return least;
      }
      return slowest([&](const NodePort& node) {
        const auto here = static_cast<std::uint64_t>(node.ranks);
        return bytes / ranks * (&node == &*fastest ? ranks - here : here);
      });
    case Collective::kSendRecv:
      return ranks == nodes.size() ? slowest([&](const NodePort&) { return bytes; }) : 0;
  }
  return 0;
}

}  // namespace meshbed::models

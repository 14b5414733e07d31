#include "models/algorithm.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "models/link.h"

namespace meshbed::models {
namespace {

constexpr std::array<std::pair<Collective, const char*>, 5> kNames{{{Collective::kAllReduce, "all_reduce"},
                                                                    {Collective::kAllGather, "all_gather"},
                                                                    {Collective::kReduceScatter, "reduce_scatter"},
                                                                    {Collective::kBroadcast, "broadcast"},
                                                                    {Collective::kSendRecv, "sendrecv"}}};

/// Payload of all hops between nodes together, and how many of them the longest chain of dependent messages crosses.
struct RingTraffic {
  std::uint64_t payload_bytes = 0;
  std::uint64_t chain_hops = 0;
};

/// Shares of an all_reduce differ by an element a channel, of which there are 64 at most.
constexpr std::uint64_t kShareSlackBytes = 64 * sizeof(float);

/// n ranks, k of whose hops leave a node (for a broadcast: k of the n-1 that it uses).
RingTraffic ring_traffic(Collective op, std::uint64_t bytes, std::uint64_t n, std::uint64_t k) {
  switch (op) {
    case Collective::kAllReduce: {
      if (k == n) return {2 * (n - 1) * bytes, 2 * (n - 1)};
      const std::uint64_t share_bytes = std::min(bytes, bytes / n + kShareSlackBytes);
      return {2 * k * (bytes - share_bytes), 2 * (k - 1)};
    }
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return {k * (n - 1) * (bytes / n), k - 1};
    case Collective::kBroadcast:
      return {k * bytes, k};
    case Collective::kSendRecv:
      return {k * bytes, 1};
  }
  return {};
}

}  // namespace

std::optional<Collective> parse_collective(std::string_view name) {
  for (const auto& [op, text] : kNames) {
    if (name == text) return op;
  }
  return std::nullopt;
}

const char* name_of(Collective op) { return kNames.at(static_cast<std::size_t>(op)).second; }

double bus_factor(Collective op, int ranks) {
  const double n = ranks;
  switch (op) {
    case Collective::kAllReduce:
      return 2.0 * (n - 1.0) / n;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return (n - 1.0) / n;
    case Collective::kBroadcast:
    case Collective::kSendRecv:
      return 1.0;
  }
  return 1.0;
}

Picoseconds ring_bound_ps(Collective op, std::uint64_t bytes, const std::vector<RingHop>& hops, int root) {
  const std::size_t ranks = hops.size();
  if (ranks < 2 || bytes == 0) return 0;

  // A broadcast leaves out the hop from the root's predecessor into the root.
  const std::size_t idle_hop =
      op == Collective::kBroadcast ? (static_cast<std::size_t>(root) + ranks - 1) % ranks : ranks;
  std::uint64_t between_nodes = 0;
  std::uint64_t rate_bps = 0;
  std::uint32_t pmtu_bytes = 0;
  Picoseconds least_latency_ps = std::numeric_limits<Picoseconds>::max();
  for (std::size_t hop = 0; hop < ranks; ++hop) {
    if (hop == idle_hop || hops[hop].rate_bps == 0) continue;
    ++between_nodes;
    rate_bps += hops[hop].rate_bps;
    pmtu_bytes = std::max(pmtu_bytes, hops[hop].pmtu_bytes);
    least_latency_ps = std::min(least_latency_ps, hops[hop].latency_ps);
  }
  if (between_nodes == 0) return 0;
  const RingTraffic traffic = ring_traffic(op, bytes, ranks, between_nodes);
  // The last bit still has to arrive; the chain has to be walked even where the payload is nothing.
  const Picoseconds by_rate =
      wire_time_ps(wire_bytes(traffic.payload_bytes, pmtu_bytes, 0), rate_bps) + least_latency_ps;
  const Picoseconds by_chain = static_cast<Picoseconds>(traffic.chain_hops) * least_latency_ps;
  return std::max(by_rate, by_chain);
}

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
  switch (op) {
    case Collective::kAllReduce: {
      std::uint64_t rate_bps = 0;
      for (const NodePort& node : nodes) rate_bps += node.rate_bps;
      return rate_bps == 0 ? 0 : wire_time_ps(2 * (nodes.size() - 1) * bytes, rate_bps);
    }
    case Collective::kAllGather:
    case Collective::kReduceScatter:
      return slowest(
          [&](const NodePort& node) { return bytes / ranks * (ranks - static_cast<std::uint64_t>(node.ranks)); });
    case Collective::kBroadcast: {
      // The root receives nothing; without knowing it, the fastest node is taken for it.
      const auto fastest = std::max_element(
          nodes.begin(), nodes.end(), [](const NodePort& a, const NodePort& b) { return a.rate_bps < b.rate_bps; });
      return slowest([&](const NodePort& node) { return &node == &*fastest ? 0 : bytes; });
    }
    case Collective::kSendRecv:
      return ranks == nodes.size() ? slowest([&](const NodePort&) { return bytes; }) : 0;
  }
  return 0;
}

}  // namespace meshbed::models

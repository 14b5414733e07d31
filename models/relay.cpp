#include "models/relay.h"

#include <algorithm>
#include <cstddef>
#include <map>

namespace meshbed::models {
namespace {

/// By how much the ports behind the link, as the segments count them, are faster than it.
std::uint64_t beyond_bps(const Topology& topology, const SharedLink& link) {
  std::uint64_t ports_bps = 0;
  for (const int index : topology.segments_of_node[static_cast<std::size_t>(link.node)]) {
    const Segment& segment = topology.segments[static_cast<std::size_t>(index)];
    for (std::size_t place = 0; place < segment.ports.size(); ++place) {
      const bool is_behind = std::binary_search(link.ports.begin(), link.ports.end(), segment.ports[place]);
      if (is_behind) ports_bps += segment.port_rates_bps[place];
    }
  }
  return ports_bps > link.rate_bps ? ports_bps - link.rate_bps : 0;
}

}  // namespace

Picoseconds relay_bound_ps(const Topology& topology, const std::vector<Flow>& flows) {
  std::uint64_t rate_bps = 0;
  for (const Segment& segment : topology.segments) {
    for (const std::uint64_t port_rate_bps : segment.port_rates_bps) rate_bps += port_rate_bps;
  }
  // Of one kind alone: a port may be behind a link of each.
  std::uint64_t over_links_bps = 0, over_qsfps_bps = 0;
  for (const SharedLink& link : topology.shared_links) {
    (link.is_qsfp() ? over_qsfps_bps : over_links_bps) += beyond_bps(topology, link);
  }
  rate_bps -= std::max(over_links_bps, over_qsfps_bps);
  std::map<int, std::vector<int>> hops_from;
  std::uint64_t bytes = 0;  // over all hops
  for (const Flow& flow : flows) {
    const auto [entry, is_new] = hops_from.try_emplace(flow.from);
    if (is_new) entry->second = hop_counts(topology, flow.from);
    const int hops = entry->second[static_cast<std::size_t>(flow.to)];
    if (hops > 0) bytes += flow.bytes * static_cast<std::uint64_t>(hops);
  }
  return rate_bps == 0 ? 0 : wire_time_ps(bytes, rate_bps);
}

double mean_far_hops(const Topology& topology, int nodes) {
  std::uint64_t hops = 0, pairs = 0;
  for (int from = 0; from < nodes; ++from) {
    const std::vector<int> counts = hop_counts(topology, from);
    for (int to = 0; to < nodes; ++to) {
      const int apart = (to - from + nodes) % nodes;
      if (apart <= 1 || apart == nodes - 1) continue;
      const int count = counts[static_cast<std::size_t>(to)];
      hops += static_cast<std::uint64_t>(count > 0 ? count : nodes);
      ++pairs;
    }
  }
  return pairs == 0 ? 1 : static_cast<double>(hops) / static_cast<double>(pairs);
}

std::uint64_t widest_chain_bps(const Topology& topology, int from, int to) {
  std::map<int, std::uint64_t> widest{{from, ~0ULL}};  // [node] of the best chain to it that was found
  std::vector<int> waiting{from};
  while (!waiting.empty()) {
    const int node = waiting.back();
    waiting.pop_back();
    for (const int neighbour : neighbours(topology, node)) {
      for (const DirectPath& hop : direct_paths(topology, node, neighbour)) {
        const std::uint64_t rate_bps = std::min(widest[node], hop.rate_bps);
        if (rate_bps <= widest[neighbour]) continue;
        widest[neighbour] = rate_bps;
        waiting.push_back(neighbour);
      }
    }
  }
  return from == to ? 0 : widest[to];
}

}  // namespace meshbed::models

#include "models/relay.h"

#include <map>

namespace meshbed::models {

Picoseconds relay_bound_ps(const Topology& topology, const std::vector<Flow>& flows) {
  std::uint64_t rate_bps = 0;
  for (const Segment& segment : topology.segments) {
    for (const std::uint64_t port_rate_bps : segment.port_rates_bps) rate_bps += port_rate_bps;
  }
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

}  // namespace meshbed::models

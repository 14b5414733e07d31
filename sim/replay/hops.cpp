#include "sim/replay/hops.h"

#include <fmt/format.h>

#include <algorithm>

namespace meshbed::sim {

using models::PortRef;

ReplayHops::ReplayHops(const models::Cluster& cluster) : cluster_(cluster), network_(cluster) {
  ports_.reserve(cluster.nodes.size());
  for (const models::Node& node : cluster.nodes) ports_.emplace_back(node.nics.size());
  const auto port = [this](PortRef of) -> Port& {
    return ports_[static_cast<std::size_t>(of.node)][static_cast<std::size_t>(of.nic)];
  };
  for (std::size_t index = 0; index < cluster.cables.size(); ++index) {
    port(cluster.cables[index].a).cable = port(cluster.cables[index].b).cable = static_cast<int>(index);
  }
  for (std::size_t index = 0; index < cluster.switches.size(); ++index) {
    for (const PortRef each : cluster.switches[index].ports) port(each).switch_index = static_cast<int>(index);
  }
}

std::vector<std::pair<PortRef, PortRef>> ReplayHops::joined(int from, int to) const {
  const auto& mine = ports_[static_cast<std::size_t>(from)];
  const auto& theirs = ports_[static_cast<std::size_t>(to)];
  std::vector<std::pair<PortRef, PortRef>> pairs;
  const auto add = [&](PortRef source, PortRef destination) {
    if (cluster_.nic_of(source).link_up && cluster_.nic_of(destination).link_up)
      pairs.emplace_back(source, destination);
  };
  for (std::size_t nic = 0; nic < mine.size(); ++nic) {
    const PortRef source{from, static_cast<int>(nic)};
    if (mine[nic].cable >= 0) {
      const models::Cable& cable = cluster_.cables[static_cast<std::size_t>(mine[nic].cable)];
      const PortRef other = cable.a == source ? cable.b : cable.a;
      if (other.node == to) add(source, other);
    } else if (mine[nic].switch_index >= 0) {
      const auto same = std::find_if(theirs.begin(), theirs.end(),
                                     [&](const Port& port) { return port.switch_index == mine[nic].switch_index; });
      if (same != theirs.end()) add(source, {to, static_cast<int>(same - theirs.begin())});
    }
  }
  return pairs;
}

Result<ReplayHop> ReplayHops::hop(int from, int to, int channel) {
  const auto refuse = [](std::string text) {
    return Error{.code = ErrorCode::kInvalidArgument, .scope = Scope::kJob, .text = std::move(text)};
  };
  const models::Node& source = cluster_.at(from);
  if (!source.bonds.empty()) return refuse(fmt::format("{} has bonds, which a replay does not model", source.name));
  const auto pairs = joined(from, to);
  if (pairs.empty()) {
    return refuse(fmt::format("no cable and no switch joins {} and {}, and a replay has no relays", source.name,
                              cluster_.at(to).name));
  }
  const auto& [out, in] = pairs[static_cast<std::size_t>(channel) % pairs.size()];
  return hop_over(*network_.wire(out, in));
}

ReplayHop ReplayHops::back(const ReplayHop& hop) {
  return hop_over(*network_.wire(hop.path->destination, hop.path->source));
}

ReplayHop ReplayHops::hop_over(const Path& path) const {
  ReplayHop hop{.path = &path};
  hop.latency_ps = path.latency_ps;
  for (const int link : hop.path->links) {
    const std::uint64_t rate_bps = network_.links()[static_cast<std::size_t>(link)].rate_bps;
    hop.rate_bps = hop.rate_bps == 0 ? rate_bps : std::min(hop.rate_bps, rate_bps);
  }
  return hop;
}

}  // namespace meshbed::sim

#include "models/time/exchange_fabric.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "models/pcie.h"
#include "models/topology.h"

namespace meshbed::models {
namespace {

constexpr double kBitsPerUsOfGBps = 8e9;

/// What a class reaches of lines.
class Reach {
 public:
  explicit Reach(const Machine& machine) : cap_GBps_(machine[MachineParameter::kHostCapGBps]) {
    const double payload = machine[MachineParameter::kMtuBytes];
    payload_ = payload / (payload + machine[MachineParameter::kPacketOverheadBytes]);
    share_ = payload_ * machine[MachineParameter::kNicFraction];
  }
  ExchangeRate of_adapters(std::uint64_t bps) const {
    const double line = static_cast<double>(bps) / kBitsPerUsOfGBps;
    return {.reached_GBps = std::min(line * share_, cap_GBps_), .line_GBps = line};
  }
  /// Of what several nodes share, all of the payload.
  ExchangeRate of_shared(std::uint64_t bps) const {
    const double line = static_cast<double>(bps) / kBitsPerUsOfGBps;
    return {.reached_GBps = line * payload_, .line_GBps = line};
  }

 private:
  double cap_GBps_, payload_ = 1, share_ = 1;
};

/// The trunks of one switched network as shared carriers, and which of them lead from box to box.
class Trunks {
 public:
  Trunks(const Switch& network, const Reach& reach, std::vector<ExchangeFabric::Shared>& shared)
      : network_(network), first_(static_cast<int>(shared.size())) {
    for (const Trunk& trunk : network.trunks) {
      const std::string& a = network.boxes[static_cast<std::size_t>(trunk.a)];
      const std::string& b = network.boxes[static_cast<std::size_t>(trunk.b)];
      shared.push_back({"trunk from " + a + " to " + b, reach.of_shared(trunk.rate_bps)});
      shared.push_back({"trunk from " + b + " to " + a, reach.of_shared(trunk.rate_bps)});
    }
  }

  int box_of(const PortRef& port) const {
    const auto place = std::find(network_.ports.begin(), network_.ports.end(), port) - network_.ports.begin();
    return network_.box_of_port.at(static_cast<std::size_t>(place));
  }

  /// Parts of what goes from one box to another, each trunk and direction.
  const std::vector<ExchangeFabric::Share>& parts(int from, int to) {
    const auto [at, is_new] = parts_.try_emplace({from, to});
    if (is_new) at->second = made(from, to);
    return at->second;
  }

 private:
  struct Exit {
    int to = 0, shared = 0;
  };

  std::vector<Exit> exits_of(int box) const {
    std::vector<Exit> exits;
    for (std::size_t index = 0; index < network_.trunks.size(); ++index) {
      const Trunk& trunk = network_.trunks[index];
      const int forward = first_ + 2 * static_cast<int>(index);
      if (trunk.a == box) exits.push_back({trunk.b, forward});
      if (trunk.b == box) exits.push_back({trunk.a, forward + 1});
    }
    return exits;
  }

  std::vector<ExchangeFabric::Share> made(int from, int to) const {
    std::vector<int> distance(network_.boxes.size(), -1), reached{to};
    distance[static_cast<std::size_t>(to)] = 0;
    for (std::size_t next = 0; next < reached.size(); ++next) {
      for (const Exit& exit : exits_of(reached[next])) {
        int& there = distance[static_cast<std::size_t>(exit.to)];
        if (there >= 0) continue;
        there = distance[static_cast<std::size_t>(reached[next])] + 1;
        reached.push_back(exit.to);
      }
    }
    std::map<int, double> level{{from, 1.0}}, all;
    for (int left = distance[static_cast<std::size_t>(from)]; left > 0; --left) {
      std::map<int, double> next;
      for (const auto& [box, part] : level) {
        std::vector<Exit> exits = exits_of(box);
        exits.erase(
            std::remove_if(exits.begin(), exits.end(),
                           [&](const Exit& exit) { return distance[static_cast<std::size_t>(exit.to)] != left - 1; }),
            exits.end());
        for (const Exit& exit : exits) {
          next[exit.to] += part / static_cast<double>(exits.size());
          all[exit.shared] += part / static_cast<double>(exits.size());
        }
      }
      level = std::move(next);
    }
    std::vector<ExchangeFabric::Share> shares;
    for (const auto& [shared, part] : all) shares.push_back({shared, part});
    return shares;
  }

  const Switch& network_;
  int first_;
  std::map<std::pair<int, int>, std::vector<ExchangeFabric::Share>> parts_;
};

/// What the paths between two nodes share with other pairs.
class SharedParts {
 public:
  SharedParts(const Cluster& cluster, const Topology& topology, const Reach& reach, ExchangeFabric& fabric)
      : topology_(topology), fabric_(fabric) {
    for (std::size_t index = 0; index < cluster.switches.size(); ++index) {
      const Switch& network = cluster.switches[index];
      if (!network.boxes.empty()) trunks_.emplace(static_cast<int>(index), Trunks(network, reach, fabric.shared));
    }
    for (std::size_t index = 0; index < cluster.routers.size(); ++index) {
      const Router& router = cluster.routers[index];
      for (const int network : router.switches) {
        const std::string& name = cluster.switches[static_cast<std::size_t>(network)].name;
        ports_[{static_cast<int>(index), network}] = static_cast<int>(fabric.shared.size());
        fabric.shared.push_back({"router " + router.name + ", from " + name, reach.of_shared(router.rate_bps)});
        fabric.shared.push_back({"router " + router.name + ", to " + name, reach.of_shared(router.rate_bps)});
      }
    }
  }

  void add(int from, int to, const std::vector<DirectPath>& paths) {
    if (fabric_.shared.empty()) return;
    std::map<int, double> parts;
    const double each = 1 / static_cast<double>(paths.size());
    for (const DirectPath& path : paths) {
      const Segment& segment = topology_.segments[static_cast<std::size_t>(path.segment)];
      if (segment.router >= 0) {
        parts[ports_.at({segment.router, switch_of(segment, path.from)})] += each;
        parts[ports_.at({segment.router, switch_of(segment, path.to)}) + 1] += each;
      } else if (const auto trunks = trunks_.find(segment.switch_index); trunks != trunks_.end()) {
        const int box = trunks->second.box_of(path.from), other = trunks->second.box_of(path.to);
        for (const ExchangeFabric::Share& share : trunks->second.parts(box, other)) {
          parts[share.shared] += each * share.part;
        }
      }
    }
    if (parts.empty()) return;
    std::vector<ExchangeFabric::Share>& shares = fabric_.parts[{from, to}];
    for (const auto& [shared, part] : parts) shares.push_back({shared, part});
  }

 private:
  static int switch_of(const Segment& segment, const PortRef& port) {
    const auto place = std::find(segment.ports.begin(), segment.ports.end(), port) - segment.ports.begin();
    return segment.port_switches.at(static_cast<std::size_t>(place));
  }

  const Topology& topology_;
  ExchangeFabric& fabric_;
  std::map<int, Trunks> trunks_;              // [switch] of several boxes
  std::map<std::pair<int, int>, int> ports_;  // [router, switch]: index of the port's way in; the way out is the next
};

ExchangeRate adapters_of(const Topology& topology, int node, const Reach& reach) {
  std::vector<PortRate> ports;
  for (const int index : topology.segments_of_node[static_cast<std::size_t>(node)]) {
    const Segment& segment = topology.segments[static_cast<std::size_t>(index)];
    for (std::size_t place = 0; place < segment.ports.size(); ++place) {
      const PortRef& port = segment.ports[place];
      const bool is_known =
          std::any_of(ports.begin(), ports.end(), [&port](const PortRate& each) { return each.port == port; });
      if (port.node == node && !is_known) ports.push_back({port, segment.port_rates_bps[place]});
    }
  }
  return reach.of_adapters(joint_rate_bps(topology.shared_links, ports));
}

}  // namespace

ExchangeFabric exchange_fabric(const Machine& machine, Cabling cabling, int nodes) {
  const int ranks_of_node = machine.ranks_per_node;
  const ExchangeRate rate{.reached_GBps = node_GBps(machine, ranks_of_node),
                          .line_GBps = nics_used(machine, ranks_of_node) * machine[MachineParameter::kNicGBps]};
  ExchangeFabric fabric;
  fabric.name = name_of(cabling);
  fabric.adapters.assign(static_cast<std::size_t>(nodes), rate);
  if (cabling != Cabling::kRing || nodes < 4) return fabric;
  fabric.direct = false;
  for (int node = 0; node < nodes; ++node) {
    const int before = (node + nodes - 1) % nodes, after = (node + 1) % nodes;
    fabric.hops.push_back({{std::min(before, after), rate}, {std::max(before, after), rate}});
  }
  return fabric;
}

Result<ExchangeFabric> exchange_fabric(const Machine& machine, const Cluster& cluster, int nodes) {
  const int there = static_cast<int>(cluster.nodes.size());
  if (there < nodes) {
    return Error{.code = ErrorCode::kInvalidArgument,
                 .text = "the topology has " + std::to_string(there) + " nodes, and the ranks are on " +
                         std::to_string(nodes) + "; give one with as many"};
  }
  const Topology topology = analyse(cluster);
  const Reach reach(machine);
  ExchangeFabric fabric;
  fabric.name = "scenario";
  fabric.direct = false;
  SharedParts shared(cluster, topology, reach, fabric);
  for (int node = 0; node < there; ++node) {
    fabric.adapters.push_back(adapters_of(topology, node, reach));
    std::vector<ExchangeFabric::Hop> hops;
    for (const int other : neighbours(topology, node)) {
      const std::vector<DirectPath> paths = direct_paths(topology, node, other);
      hops.push_back({other, reach.of_adapters(joint_rate_bps(topology, paths))});
      shared.add(node, other, paths);
    }
    fabric.hops.push_back(std::move(hops));
  }
  return fabric;
}

}  // namespace meshbed::models

#include "plugin/net/wire/neighbour_map.h"

#include <algorithm>

namespace meshbed::net {
namespace {

/// Our addresses on links that are up, as in our own answer.
std::vector<PeerAddress> own_addresses(const std::vector<Nic>& nics) {
  std::vector<PeerAddress> addresses;
  for (std::size_t nic = 0; nic < nics.size(); ++nic) {
    if (!nics[nic].link_up) continue;
    for (const IpPrefix& prefix : nics[nic].addresses) {
      addresses.push_back({.prefix = prefix, .nic = static_cast<std::uint8_t>(nic)});
    }
  }
  return addresses;
}

constexpr int kFar = 1 << 20;

/// The processes of a node that use the same NICs: any of them may relay where one of them may.
struct Relay {
  const NeighbourNode* node = nullptr;
  std::vector<const RelayDoor*> doors{};  // at least one
  int distance = kFar;                    // cables to the target
  // Once weighed, the best path from it to the target:
  std::uint64_t in_flight_bytes = 0;     // on the most loaded cable of that path
  const Relay* next = nullptr;           // nullptr: the target
  const PeerAddress* address = nullptr;  // of the next relay
  std::size_t ways = 1;                  // number of possible next relays

  const std::vector<PeerAddress>& addresses() const { return doors.front()->addresses; }
};

void add_relays(const NeighbourNode& node, std::vector<Relay>& relays) {
  const std::size_t first = relays.size();
  for (const RelayDoor& door : node.doors) {
    const auto known = std::find_if(relays.begin() + static_cast<std::ptrdiff_t>(first), relays.end(),
                                    [&](const Relay& relay) { return relay.addresses() == door.addresses; });
    if (known != relays.end()) {
      known->doors.push_back(&door);
    } else {
      relays.push_back({.node = &node, .doors = {&door}});
    }
  }
}

/// All relays, with their distance to the target if that is below the limit.
std::vector<Relay> relays_of(const std::vector<NeighbourNode>& nodes, const ChainRequest& request) {
  std::vector<Relay> relays;
  for (const NeighbourNode& node : nodes) {
    if (node.node != request.node && node.node != request.target) add_relays(node, relays);
  }
  for (Relay& relay : relays) {
    if (shared_address(relay.addresses(), request.target_addresses) != nullptr) relay.distance = 1;
  }
  for (int reached = 1; reached + 1 < request.hop_limit; ++reached) {
    for (Relay& relay : relays) {
      const bool next =
          relay.distance == kFar && std::any_of(relays.begin(), relays.end(), [&](const Relay& via) {
            return via.distance == reached && shared_address(relay.addresses(), via.addresses()) != nullptr;
          });
      if (next) relay.distance = reached + 1;
    }
  }
  return relays;
}

/// A relay that may be the next one, and its address on the subnet that it shares with the previous node.
struct Step {
  const Relay* relay = nullptr;
  const PeerAddress* address = nullptr;
  std::uint64_t in_flight_bytes = 0;  // on the most loaded cable of the path to the target through it
};

/// A key that orders relays equally on all nodes and in all runs: identities differ between two runs, addresses do not.
auto name_of(const std::vector<PeerAddress>& addresses) {
  std::vector<decltype(IpAddress::bytes)> name;
  name.reserve(addresses.size());
  for (const PeerAddress& address : addresses) name.push_back(address.prefix.address.bytes);
  std::sort(name.begin(), name.end());
  return name;
}

std::vector<Step> steps_from(const std::vector<PeerAddress>& here, const std::vector<Relay>& relays, int distance) {
  std::vector<Step> steps;
  for (const Relay& relay : relays) {
    if (relay.distance != distance) continue;
    const PeerAddress* address = shared_address(here, relay.addresses());
    if (address != nullptr) steps.push_back({.relay = &relay, .address = address});
  }
  std::stable_sort(steps.begin(), steps.end(), [](const Step& one, const Step& other) {
    return name_of(one.relay->addresses()) < name_of(other.relay->addresses());
  });
  return steps;
}

/// The number, modulo the count of equal steps, of the step to take. The two ends of a pair take different ways, so
/// that on a ring of four all cables carry equally many of the diagonals.
std::size_t turn_of(const ChainRequest& request, const std::vector<PeerAddress>& own) {
  const bool upper = name_of(request.target_addresses) < name_of(own);
  return static_cast<std::size_t>(std::max(request.dev, 0)) + (upper ? 1 : 0);
}

/// Our node: this process as in its own answer, and the other processes, which have answered.
NeighbourNode own_node(const std::vector<NeighbourNode>& nodes, const ChainRequest& request) {
  NeighbourNode own{.node = request.node, .doors = {{.addresses = own_addresses(*request.nics)}}};
  for (const PeerAddress& address : own.doors[0].addresses) {
    if (address.nic >= request.in_flight_bytes.size()) continue;
    own.doors[0].traffic.push_back({address.prefix.address, request.in_flight_bytes[address.nic]});
  }
  for (const NeighbourNode& node : nodes) {
    if (node.node == request.node) own.doors.insert(own.doors.end(), node.doors.begin(), node.doors.end());
  }
  return own;
}

/// The bytes that all processes of a node have in flight over the cable to this address.
std::uint64_t load_between(const NeighbourNode& from, const std::vector<PeerAddress>& ports, const PeerAddress& to) {
  const PeerAddress* port = shared_address({to}, ports);
  std::uint64_t bytes = 0;
  for (const RelayDoor& door : from.doors) {
    for (const PortTraffic& traffic : door.traffic) {
      if (port != nullptr && traffic.address == port->prefix.address) bytes += traffic.in_flight_bytes;
    }
  }
  return bytes;
}

/// The step in turn, or the one whose load is smaller by more than the threshold. `steps` must not be empty.
const Step& best_of(const std::vector<Step>& steps, std::size_t turn, const ChainRequest& request) {
  const Step& next = steps[turn % steps.size()];
  const auto lightest = std::min_element(steps.begin(), steps.end(), [](const Step& one, const Step& other) {
    return one.in_flight_bytes < other.in_flight_bytes;
  });
  return next.in_flight_bytes - lightest->in_flight_bytes > request.threshold_bytes ? *lightest : next;
}

void weigh_steps(const NeighbourNode& from, const std::vector<PeerAddress>& ports, std::vector<Step>& steps) {
  for (Step& step : steps) {
    step.in_flight_bytes = std::max(load_between(from, ports, *step.address), step.relay->in_flight_bytes);
  }
}

/// Sets the best path of every relay that is nearer to the target than `distance`, the nearest first.
void weigh(std::vector<Relay>& relays, int distance, std::size_t turn, const ChainRequest& request) {
  for (int reached = 1; reached < distance; ++reached) {
    for (Relay& relay : relays) {
      if (relay.distance != reached) continue;
      if (reached == 1) {
        const PeerAddress* target = shared_address(relay.addresses(), request.target_addresses);
        relay.in_flight_bytes = load_between(*relay.node, relay.addresses(), *target);
        continue;
      }
      std::vector<Step> steps = steps_from(relay.addresses(), relays, reached - 1);
      weigh_steps(*relay.node, relay.addresses(), steps);
      const Step& best = best_of(steps, turn, request);  // not empty, by the distance
      relay.ways = steps.size();
      relay.next = best.relay;
      relay.address = best.address;
      relay.in_flight_bytes = best.in_flight_bytes;
    }
  }
}

}  // namespace

const PeerAddress* shared_address(const std::vector<PeerAddress>& from, const std::vector<PeerAddress>& to) {
  for (const PeerAddress& there : to) {
    for (const PeerAddress& here : from) {
      if (here.prefix.address != there.prefix.address && shared_bits(here.prefix, there.prefix)) return &there;
    }
  }
  return nullptr;
}

bool NeighbourNode::is_on_cable_of(const PeerAddress& port) const {
  return std::any_of(doors.begin(), doors.end(),
                     [&](const RelayDoor& door) { return shared_address({port}, door.addresses) != nullptr; });
}

void NeighbourMap::add(std::uint64_t node, RelayDoor door) {
  auto found = std::lower_bound(nodes_.begin(), nodes_.end(), node,
                                [](const NeighbourNode& known, std::uint64_t wanted) { return known.node < wanted; });
  if (found == nodes_.end() || found->node != node) {
    found = nodes_.insert(found, NeighbourNode{.node = node, .doors = {}});
  }
  const auto place =
      std::lower_bound(found->doors.begin(), found->doors.end(), door.process,
                       [](const RelayDoor& known, std::uint32_t process) { return known.process < process; });
  if (place != found->doors.end() && place->process == door.process) {
    *place = std::move(door);
  } else {
    found->doors.insert(place, std::move(door));
  }
}

const RelayDoor* NeighbourMap::door(const ProcessKey& key) const {
  const auto node =
      std::find_if(nodes_.begin(), nodes_.end(), [&](const NeighbourNode& known) { return known.node == key.node; });
  if (node == nodes_.end()) return nullptr;
  const auto found = std::find_if(node->doors.begin(), node->doors.end(), [&](const RelayDoor& door) {
    return key.process ? door.process == *key.process : door.port == key.circuit_port;
  });
  return found != node->doors.end() ? &*found : nullptr;
}

void NeighbourMap::forget_before(std::int64_t heard_ns) {
  for (NeighbourNode& node : nodes_) {
    std::erase_if(node.doors, [heard_ns](const RelayDoor& door) { return door.heard_ns < heard_ns; });
  }
  std::erase_if(nodes_, [](const NeighbourNode& node) { return node.doors.empty(); });
}

void NeighbourMap::forget_loads_before(std::int64_t heard_ns) {
  for (NeighbourNode& node : nodes_) {
    for (RelayDoor& door : node.doors) {
      if (door.heard_ns < heard_ns) door.traffic.clear();
    }
  }
}

std::optional<std::vector<Hop>> NeighbourMap::chain(const ChainRequest& request) const {
  std::vector<Relay> relays = relays_of(nodes_, request);
  const NeighbourNode own = own_node(nodes_, request);
  const std::vector<PeerAddress>& ports = own.doors.front().addresses;
  int distance = kFar;
  for (const Relay& relay : relays) {
    const bool is_neighbour = shared_address(ports, relay.addresses()) != nullptr;
    if (relay.distance < distance && is_neighbour) distance = relay.distance;
  }
  if (distance + 1 > request.hop_limit) return std::nullopt;

  const std::size_t turn = turn_of(request, ports);
  weigh(relays, distance + 1, turn, request);
  std::vector<Step> steps = steps_from(ports, relays, distance);
  weigh_steps(own, ports, steps);
  const Step& best = best_of(steps, turn, request);
  std::vector<Hop> hops;
  // If a relay has several processes, they take turns, after the paths have taken theirs.
  std::size_t ways = steps.size();
  const PeerAddress* address = best.address;
  for (const Relay* relay = best.relay; relay != nullptr; address = relay->address, relay = relay->next) {
    const RelayDoor& door = *relay->doors[turn / ways % relay->doors.size()];
    hops.push_back({.node = relay->node->node, .address = address->prefix, .port = door.port});
    if (relay->next != nullptr) ways = relay->ways;
  }
  return hops;
}

}  // namespace meshbed::net

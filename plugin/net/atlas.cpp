#include "plugin/net/atlas.h"

#include <algorithm>

namespace meshbed::net {
namespace {

/// Our addresses on links that are up, as others would know them.
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

struct Relay {
  const AtlasNode* node = nullptr;
  int distance = kFar;  // cables to the target
};

/// Everybody who may relay, with the distance to the target where that is below `limit`.
std::vector<Relay> relays_of(const std::vector<AtlasNode>& nodes, const ChainRequest& request) {
  std::vector<Relay> relays;
  for (const AtlasNode& node : nodes) {
    if (node.node == request.node || node.node == request.target) continue;
    const bool last = shared_address(node.addresses, request.target_addresses) != nullptr;
    relays.push_back({.node = &node, .distance = last ? 1 : kFar});
  }
  for (int reached = 1; reached + 1 < request.hop_limit; ++reached) {
    for (Relay& relay : relays) {
      const bool next =
          relay.distance == kFar && std::any_of(relays.begin(), relays.end(), [&](const Relay& via) {
            return via.distance == reached && shared_address(relay.node->addresses, via.node->addresses) != nullptr;
          });
      if (next) relay.distance = reached + 1;
    }
  }
  return relays;
}

/// A relay that may be the next one, and its address on the subnet that it shares with whoever comes before it.
struct Step {
  const Relay* relay = nullptr;
  const PeerAddress* address = nullptr;
};

/// What orders nodes the same way wherever the question is asked: identities differ between two runs, addresses do not.
IpAddress name_of(const std::vector<PeerAddress>& addresses) {
  const auto lowest = std::min_element(addresses.begin(), addresses.end(), [](const auto& one, const auto& other) {
    return one.prefix.address.bytes < other.prefix.address.bytes;
  });
  return lowest != addresses.end() ? lowest->prefix.address : IpAddress{};
}

std::vector<Step> steps_from(const std::vector<PeerAddress>& here, const std::vector<Relay>& relays, int distance) {
  std::vector<Step> steps;
  for (const Relay& relay : relays) {
    if (relay.distance != distance) continue;
    if (const PeerAddress* address = shared_address(here, relay.node->addresses)) steps.push_back({&relay, address});
  }
  std::sort(steps.begin(), steps.end(), [](const Step& one, const Step& other) {
    return name_of(one.relay->node->addresses).bytes < name_of(other.relay->node->addresses).bytes;
  });
  return steps;
}

/// Which of several equal steps is taken, as a number to be divided by their count. The two ends of a pair go different
/// ways, so that on a ring of four each cable carries as many of the diagonals as every other one.
std::size_t turn_of(const ChainRequest& request, const std::vector<PeerAddress>& own) {
  const bool upper = name_of(request.target_addresses).bytes < name_of(own).bytes;
  return static_cast<std::size_t>(std::max(request.dev, 0)) + (upper ? 1 : 0);
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

void Atlas::add(std::uint64_t node, const RelayDoor& door, std::vector<PeerAddress> addresses) {
  auto found = std::lower_bound(nodes_.begin(), nodes_.end(), node,
                                [](const AtlasNode& known, std::uint64_t wanted) { return known.node < wanted; });
  if (found == nodes_.end() || found->node != node) {
    found = nodes_.insert(found, AtlasNode{.node = node, .addresses = {}, .doors = {}});
  }
  found->addresses = std::move(addresses);
  const auto place =
      std::lower_bound(found->doors.begin(), found->doors.end(), door.process,
                       [](const RelayDoor& known, std::uint32_t process) { return known.process < process; });
  if (place != found->doors.end() && place->process == door.process) {
    *place = door;
  } else {
    found->doors.insert(place, door);
  }
}

std::optional<std::vector<Hop>> Atlas::chain(const ChainRequest& request) const {
  const std::vector<Relay> relays = relays_of(nodes_, request);
  const std::vector<PeerAddress> own = own_addresses(*request.nics);
  int distance = kFar;
  for (const Relay& relay : relays) {
    if (relay.distance < distance && shared_address(own, relay.node->addresses) != nullptr) distance = relay.distance;
  }
  if (distance + 1 > request.hop_limit) return std::nullopt;

  const std::size_t turn = turn_of(request, own);
  std::vector<Hop> hops;
  std::vector<PeerAddress> here = own;
  for (; distance > 0; --distance) {
    std::vector<Step> steps = steps_from(here, relays, distance);
    const Step& step = steps[turn % steps.size()];  // never empty: that is what the distance says
    const AtlasNode& node = *step.relay->node;
    const RelayDoor& door = node.doors[turn / steps.size() % node.doors.size()];
    hops.push_back({.node = node.node, .address = step.address->prefix, .port = door.port});
    here = node.addresses;
  }
  return hops;
}

}  // namespace meshbed::net

#pragma once
// The map that answers to a query draw: nodes with their addresses, joined where they share a subnet. Pure values.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plugin/net/process/nic.h"
#include "plugin/net/process/peer_address.h"
#include "plugin/net/wire/handle.h"

namespace meshbed::net {

/// What a process has in flight from the port of an address of its node.
struct PortTraffic {
  IpAddress address;
  std::uint64_t in_flight_bytes = 0;
  bool operator==(const PortTraffic&) const = default;
};

/// Where circuits through a node begin: a process of it, and the port at which it listens on every address.
struct RelayDoor {
  std::uint32_t process = 0;
  std::uint16_t port = 0;
  std::vector<PortTraffic> traffic{};  // the process's, when it answered
  std::int64_t heard_ns = 0;           // that was then, on whatever clock
  /// Its own: other processes of the node may use other NICs, and then relay between other cables.
  std::vector<PeerAddress> addresses{};
  bool operator==(const RelayDoor&) const = default;
};

struct NeighbourNode {
  std::uint64_t node = 0;
  std::vector<RelayDoor> doors;  // in the order of their processes

  /// Whether one of its processes may be reached from this port.
  bool is_on_cable_of(const PeerAddress& port) const;
};

/// One process of a node: by its number, or, where that is not known, by the port where circuits through it begin.
struct ProcessKey {
  std::uint64_t node = 0;
  std::optional<std::uint32_t> process{};
  std::uint16_t circuit_port = 0;
};

inline ProcessKey process_of(const Handle& handle) { return {.node = handle.node, .process = handle.process}; }

/// One relay of a chain: who it is and where to dial it from the node before it.
struct Hop {
  std::uint64_t node = 0;
  IpPrefix address;
  std::uint16_t port = 0;
  bool operator==(const Hop&) const = default;
};

/// How to get from here to a node that shares no subnet with us.
struct ChainRequest {
  const std::vector<Nic>* nics = nullptr;  // ours
  std::uint64_t node = 0;                  // ours
  std::uint64_t target = 0;
  std::vector<PeerAddress> target_addresses;
  int hop_limit = 8;  // cables from here to the target
  int dev = 0;        // asked for by the caller

  /// Ours, from each of `nics`; shorter: nothing is.
  std::vector<std::uint64_t> in_flight_bytes{};
  /// By how much one of two equally short chains must be the less loaded one to be taken out of turn.
  std::uint64_t threshold_bytes = UINT64_MAX;
};

class NeighbourMap {
 public:
  /// One more answer; a process that answers again replaces what it said before.
  void add(std::uint64_t node, RelayDoor door);
  /// Processes that answered last before then are gone, with their loads, and nodes that have no other one.
  void forget_before(std::int64_t heard_ns);
  /// Those are perhaps still there, but what they had in flight then says nothing of now.
  void forget_loads_before(std::int64_t heard_ns);
  const std::vector<NeighbourNode>& nodes() const { return nodes_; }
  /// nullptr: it has not answered.
  const RelayDoor* door(const ProcessKey& key) const;

  /// The relays between us and the target, the nearest first; nullopt: there is no chain of at most hop_limit cables.
  /// The shortest; equal ones take turns by `dev` and by which end of the pair asks, so that the channels of a ring,
  /// and the two directions of a pair, use both ways round; but one that is the less loaded by more than the threshold
  /// comes first. Deterministic: equal maps give equal chains. Cost: nodes^2 x addresses^2, when a connection is made.
  std::optional<std::vector<Hop>> chain(const ChainRequest& request) const;

 private:
  std::vector<NeighbourNode> nodes_;  // in order of node
};

/// The first address of `to` that `from` finds in one of its subnets, and finds it too. nullptr: no shared subnet.
const PeerAddress* shared_address(const std::vector<PeerAddress>& from, const std::vector<PeerAddress>& to);

}  // namespace meshbed::net

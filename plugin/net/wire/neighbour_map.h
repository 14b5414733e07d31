#pragma once
// The map that is built from the answers to a query: nodes with their addresses, joined by shared subnets. Pure values.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plugin/net/process/nic.h"
#include "plugin/net/process/peer_address.h"
#include "plugin/net/wire/handle.h"

namespace meshbed::net {

/// The bytes that a process has in flight from the port of an address of its node.
struct PortTraffic {
  IpAddress address;
  std::uint64_t in_flight_bytes = 0;
  bool operator==(const PortTraffic&) const = default;
};

/// A process of a node that relays, and the port at which it listens for circuits on every address.
struct RelayDoor {
  std::uint32_t process = 0;
  std::uint16_t port = 0;
  std::vector<PortTraffic> traffic{};  // the process's, when it answered
  std::int64_t heard_ns = 0;           // when its answer arrived, on the caller's clock
  /// Its own addresses: other processes of the node may use other NICs, and then relay between other cables.
  std::vector<PeerAddress> addresses{};
  bool operator==(const RelayDoor&) const = default;
};

struct NeighbourNode {
  std::uint64_t node = 0;
  std::vector<RelayDoor> doors;  // in the order of their processes

  /// Whether one of its processes may be reached from this port.
  bool is_on_cable_of(const PeerAddress& port) const;
};

/// One process of a node: by its number or, if that is not known, by its port for circuits.
struct ProcessKey {
  std::uint64_t node = 0;
  std::optional<std::uint32_t> process{};
  std::uint16_t circuit_port = 0;
};

inline ProcessKey process_of(const Handle& handle) { return {.node = handle.node, .process = handle.process}; }

/// One relay of a chain: its node, and the address and port at which the previous node dials it.
struct Hop {
  std::uint64_t node = 0;
  IpPrefix address;
  std::uint16_t port = 0;
  bool operator==(const Hop&) const = default;
};

/// A request for a chain to a node that shares no subnet with us.
struct ChainRequest {
  const std::vector<Nic>* nics = nullptr;  // ours
  std::uint64_t node = 0;                  // ours
  std::uint64_t target = 0;
  std::vector<PeerAddress> target_addresses;
  int hop_limit = 8;  // cables from here to the target
  int dev = 0;        // requested by the caller

  /// Our bytes in flight from each of `nics`; missing ones are 0.
  std::vector<std::uint64_t> in_flight_bytes{};
  /// A chain is taken out of turn if its load is smaller than that of an equally short one by more than this.
  std::uint64_t threshold_bytes = UINT64_MAX;
};

class NeighbourMap {
 public:
  /// Adds an answer; it replaces an earlier one of the same process.
  void add(std::uint64_t node, RelayDoor door);
  /// Removes processes whose last answer is older, and nodes without any other process.
  void forget_before(std::int64_t heard_ns);
  /// Removes the loads in answers that are older: the processes may still exist, but the loads are outdated.
  void forget_loads_before(std::int64_t heard_ns);
  const std::vector<NeighbourNode>& nodes() const { return nodes_; }
  /// nullptr: it has not answered.
  const RelayDoor* door(const ProcessKey& key) const;

  /// The relays between us and the target, the nearest first; nullopt: there is no chain of at most hop_limit cables.
  /// The shortest chain is used. Equally short ones take turns by `dev` and by the end of the pair that asks, so that
  /// the channels of a ring, and the two directions of a pair, use both ways round; but a chain whose load is smaller
  /// by more than the threshold comes first. Deterministic: equal maps give equal chains. Cost: nodes^2 x addresses^2,
  /// when a connection is made.
  std::optional<std::vector<Hop>> chain(const ChainRequest& request) const;

 private:
  std::vector<NeighbourNode> nodes_;  // in order of node
};

/// The first address of `to` that shares a subnet with one of `from`, by both prefixes. nullptr: no shared subnet.
const PeerAddress* shared_address(const std::vector<PeerAddress>& from, const std::vector<PeerAddress>& to);

}  // namespace meshbed::net

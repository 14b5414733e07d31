#pragma once
// The map that answers to a query draw: nodes with their addresses, joined where they share a subnet. Pure values.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plugin/net/nic.h"
#include "plugin/net/peer_address.h"

namespace meshbed::net {

/// Where circuits through a node begin: a process of it, and the port at which it listens on every address.
struct RelayDoor {
  std::uint32_t process = 0;
  std::uint16_t port = 0;
  bool operator==(const RelayDoor&) const = default;
};

struct AtlasNode {
  std::uint64_t node = 0;
  std::vector<PeerAddress> addresses;
  std::vector<RelayDoor> doors;  // in the order of their processes
};

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
};

class Atlas {
 public:
  /// One more answer; a process that answers again replaces what it said before.
  void add(std::uint64_t node, const RelayDoor& door, std::vector<PeerAddress> addresses);
  const std::vector<AtlasNode>& nodes() const { return nodes_; }

  /// The relays between us and the target, the nearest first; nullopt: there is no chain of at most hop_limit cables.
  /// The shortest; equal ones take turns by `dev` and by which end of the pair asks, so that the channels of a ring,
  /// and the two directions of a pair, use both ways round. Deterministic: equal maps give equal chains. Cost: nodes^2
  /// x addresses^2, when a connection is made.
  std::optional<std::vector<Hop>> chain(const ChainRequest& request) const;

 private:
  std::vector<AtlasNode> nodes_;  // in order of node
};

/// The first address of `to` that `from` finds in one of its subnets, and finds it too. nullptr: no shared subnet.
const PeerAddress* shared_address(const std::vector<PeerAddress>& from, const std::vector<PeerAddress>& to);

}  // namespace meshbed::net

#pragma once
// QSFP ports: what the functions of one port share. Pure functions of a Cluster.
//
// Nomenclature: QSFP port - the socket of a card that one cable is plugged into; NICs of a node that name the same
// Nic::qsfp are its functions. Wire - the one cable between two QSFP ports. It stands in Cluster::cables once for each
// pair of functions; a NIC without Nic::qsfp has a port of its own, and its cable is a wire.
// The functions of both ends are one layer-2 network: each reaches all functions of the other end that are in one of
// its subnets, by whichever of the wire's cables. Together they carry the port's rate (SharedLink, models/pcie.h).

#include <optional>
#include <vector>

#include "models/cluster.h"

namespace meshbed::models {

/// [cable] the first cable of the wire that it belongs to. O(cables log cables).
std::vector<int> wires(const Cluster& cluster);

/// The cable's wire, with all of its cables in order.
struct SharedWire {
  std::vector<int> cables;
  std::vector<PortRef> a, b;  // the functions of either end; each list in the cables' order
};
/// Wires of two cables and more.
std::vector<SharedWire> shared_wires(const Cluster& cluster);

/// The first two functions of one QSFP port that lead to different places: a port has one cable.
struct SplitPort {
  PortRef one, other;
};
std::optional<SplitPort> split_port(const Cluster& cluster);

}  // namespace meshbed::models

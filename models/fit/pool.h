#pragma once
// Pool: the common values of the measured classes of one transport, for a class without measurements. Pure and
// deterministic.
//
// Rule: the values below, one each for all, that lead to the least loss over the peers' sweeps, each peer with its own
// adapters, nodes and cables from its data sheet, and with a ridge towards the library's constants. A peer is a class
// of the same transport (EFA and TCPX count as one; of a library's own kernels between nodes the same library) that
// shares no topology class with the class in question; without peers there are no values. Fitted: launch, hops, shares
// of rates, and LL's window where a peer was forced to use LL; never a rate, which is the machine's own. Loss: the mean
// of e / (1 + e), e = |ln(predicted / measured)|, each class weighing the same, so that one unusual class does not
// dominate. The weight of the ridge was chosen by how well classes left out are predicted (results/fidelity). Ramps and
// fills are a class's own: values of other classes made predictions worse. Cost: rounds * values * points.

#include <string>
#include <vector>

#include "models/fit/sweep.h"

namespace meshbed::models {

/// A class as its data sheet has it, and what was measured of it.
struct Peer {
  Machine machine;
  std::vector<Sweep> sweeps;
};

/// Those of `all` that are peers of `machine`: see the rule.
std::vector<Peer> peers_of(const Machine& machine, const std::vector<Peer>& all);

/// `machine` with its peers' values in place of fallbacks; values from elsewhere or fitted to itself stay. The new
/// values have basis "other classes" and the peers' files as their source.
Machine with_pool(Machine machine, const std::vector<Peer>& all);

}  // namespace meshbed::models

#pragma once
// Pool: what the measured classes of one transport have in common, for a class that none of them is. Pure and
// deterministic.
//
// Rule: the values below, one each for all, that lead to the least loss over the peers' sweeps, each peer with its own
// adapters, nodes and cables from its data sheet, and with a ridge towards the library's constants. A peer is a class
// of the same transport (EFA and TCPX count as one) that shares no topology class with the one that asks; where there
// is none, nothing is told.
// Fitted: launch, hops, shares of rates, and LL's window where a peer was forced to use LL; never a rate, which is the
// machine's own. Loss: the mean of e / (1 + e), e = |ln(predicted / measured)|, each class weighing the same, so that
// one odd class does not speak for all. The weight of the ridge was chosen by how well classes left out are predicted
// (results/fidelity). Ramps and fills are a class's own: told by others they made predictions worse. Cost: rounds *
// values * points.

#include <string>
#include <vector>

#include "models/fit/sweep.h"

namespace meshbed::models {

/// A class as its data sheet has it, and what was measured of it.
struct Peer {
  Machine machine;
  std::vector<Sweep> sweeps;
};

/// Those of `all` whose measurements may tell something of `machine`: see the rule.
std::vector<Peer> peers_of(const Machine& machine, const std::vector<Peer>& all);

/// `machine` with what its peers tell in the place of fallbacks; what it knows from elsewhere or was fitted to itself
/// stays. Values told have basis "other classes" and the peers' files as their source.
Machine with_pool(Machine machine, const std::vector<Peer>& all);

}  // namespace meshbed::models

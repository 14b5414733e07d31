#pragma once
// Rank ring: whether ranks can forward messages from neighbour to neighbour in a ring.

#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

/// Four ranks or more, one a node, each with a direct path to the one before and the one after it.
bool is_rank_ring(const Scenario& scenario);

/// The one-shot exchange's `forward` where the file has none: "ranks" if each rank's node has direct paths to those two
/// and to no other, else "plugin". Unused without that exchange.
void choose_forward(Scenario& scenario);

}  // namespace meshbed::testbed

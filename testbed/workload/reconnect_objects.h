#pragma once
// How many verbs objects and descriptors ranks may have at one time while they connect, exchange messages and close
// again and again. What piles up with the connections exceeds these bounds. Pure functions of the scenario.

#include <cstdint>

#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

/// Of all ranks together.
struct ReconnectObjects {
  std::uint64_t verbs = 0;
  std::uint64_t descriptors = 0;
};

ReconnectObjects most_reconnect_objects(const Scenario& scenario, int ranks);

}  // namespace meshbed::testbed

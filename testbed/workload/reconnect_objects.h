#pragma once
// The largest number of verbs objects and descriptors that ranks may have at one time while they repeatedly connect,
// exchange messages and close. Leaks grow with the connections and exceed these bounds. Pure functions of the scenario.

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

#pragma once
// Competitors: other models of collectives on the same measured points, beside ours, each with what it was fitted to.
//
//   closed form   steps * 0.5 us + W / rate: what analytical simulators compute for a ring on links of the data sheet's
//                 rate (ASTRA-sim's analytical network, whose example networks have 500 ns a link)
//   cost table    NCCL's own estimate of the cheapest way (src/graph/tuning.cc: latency and rate, nothing else)
//   LogGP         steps * (L + 2 o) + W * G, least squares over the class's other files
//   two points    a line through the smallest and the largest size of each kind of a file, judged by the others
// Steps and W are those of models/time/collective_time.h.

#include <map>
#include <string>
#include <vector>

#include "models/fit/pool.h"
#include "testbed/fidelity/validated.h"

namespace meshbed::testbed {

/// The page's section. `sweeps`: of files of quality A and B, by profile, one a file.
std::string competitors_section(const std::map<std::string, std::vector<models::Sweep>>& sweeps,
                                const std::vector<models::Machine>& profiles, const std::vector<models::Peer>& peers);

}  // namespace meshbed::testbed

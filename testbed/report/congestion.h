#pragma once
// What of a run rests on a network that neither loses nor pauses: ports that were offered more than they carry.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/engine/network.h"

namespace meshbed::testbed {

/// Lines of the report: that a lossless network without pause frames is assumed, and the ports of switches and of
/// receivers (their PCIe links) into which senders would have put more at one time than they carry, the most first.
/// Empty: there were none, so that nothing was assumed.
std::vector<std::string> congestion_lines(const std::vector<sim::Link>& links);
/// The same of all such ports: {"assumed": text, "ports": [{"name", "rate_bps", "offered_bps", "oversubscribed"}]},
/// where "oversubscribed" is offered over rate; null: there were none.
nlohmann::ordered_json congestion_json(const std::vector<sim::Link>& links);

}  // namespace meshbed::testbed

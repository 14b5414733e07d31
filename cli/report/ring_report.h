#pragma once
// Of a run's megakernels: how their rings ended, and which times were taken for granted.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/workload/megakernel/outcome.h"

namespace meshbed::cli {

/// For people.
std::vector<std::string> ring_lines(const RingOutcome& rings);
/// The same for programs.
nlohmann::ordered_json rings_json(const RingOutcome& rings);

}  // namespace meshbed::cli

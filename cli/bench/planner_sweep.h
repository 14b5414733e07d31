#pragma once
// Planner sweep: every algorithm on many cablings, rails and sizes, beside the engine's choice.

#include <cstdint>
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/algorithm.h"

namespace meshbed::cli {

struct PlannerCabling {
  std::string name;
  std::string toml;  // [topology], and what lies over it
  int channels = 1;
};

/// `rails`: parallel cables (of a switch: switches) between the same nodes, where the cabling has no number of its own.
/// `names`: of the cablings, without their rails; empty: all. Throws std::runtime_error for one that there is not.
std::vector<PlannerCabling> sweep_cablings(const std::vector<int>& rails, const std::vector<std::string>& names);

struct PlannerSweep {
  models::Collective collective = models::Collective::kAllReduce;
  std::vector<std::uint64_t> sizes_bytes;
  std::vector<PlannerCabling> cablings;
};

/// Simulates them one by one, and writes a row of the table as each is done; simulated microseconds of one iteration,
/// connections made before. The rows as JSON: cabling, bytes, one member an algorithm, auto_us, and `over_best`, of
/// auto to the fastest named algorithm.
nlohmann::json run_planner_sweep(const PlannerSweep& sweep, std::ostream& table);

}  // namespace meshbed::cli

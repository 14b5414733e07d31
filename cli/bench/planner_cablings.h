#pragma once
// Planner cablings: what the planner's benchmarks run on.

#include <string>
#include <vector>

namespace meshbed::testbed {

struct PlannerCabling {
  std::string name;
  std::string toml;  // [topology], and what lies over it
  int channels = 1;
};

/// The seven of `bench planner`.
const std::vector<PlannerCabling>& planner_cablings();

/// Those of `bench planner --sweep`:
///   standard     rings, lines, a star, a switch, tori, partial5 and a cube mesh
///   less-a-cable each standard cabling of three to six nodes with one cable less, as far as all nodes stay joined and
///                no two are the same but for their numbers
///   random       20 connected graphs of four to eight nodes, seeded by their numbers; each third has cables of 50, 100
///                and 200 Gb/s, the others have 100 Gb/s
/// `rails`: parallel cables (of a switch: switches) between the same nodes, where the cabling has no number of its own.
/// `names`: of cablings, without their rails, or of these groups; empty: all. Throws std::runtime_error for an unknown
/// one.
std::vector<PlannerCabling> sweep_cablings(const std::vector<int>& rails, const std::vector<std::string>& names);

}  // namespace meshbed::testbed

#pragma once
// A cluster's cabling as a report and as a picture. Nothing is run.

#include <cstddef>
#include <string>
#include <vector>

#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

/// Which pair of nodes is joined by which NICs in which subnet, every pair that has no direct path, and every cable
/// whose ends are in different subnets. Above kMatrixPairsMax pairs the matrix is one line a cable or switch instead;
/// above kMissingPairsMax missing pairs the rest is counted - unless `all`.
std::string topology_report(const Scenario& scenario, bool all);
inline constexpr std::uint64_t kMatrixPairsMax = 66;  // twelve nodes, each with each
inline constexpr std::uint64_t kMissingPairsMax = 64;

/// The cluster as an SVG picture: nodes on a circle, cables with subnet and rate, switches in the middle. In a crowded
/// picture cables carry numbers, and a legend explains them. Throws ScenarioError above kDrawnNodesMax nodes.
std::string topology_svg(const Scenario& scenario);
inline constexpr std::size_t kDrawnNodesMax = 128;

}  // namespace meshbed::testbed

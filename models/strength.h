#pragma once
// Strength: how fast cables let all ranks reduce. Pure.
//
// Nomenclature: strength of a cabling - least, over all ways to part its nodes into k > 1 groups, of (rate of all
// cables between groups) / (k-1). An all_reduce of S bytes takes S / strength at least, with every algorithm: a group's
// data must leave it once for each byte before the groups' sum can exist, and the sum must enter all groups but one:
// 2(k-1) S bytes between groups, over cables that carry their rate in both directions. Two groups make that the bound
// by the least cut; a node alone against all others, that of its own ports (Tutte, Nash-Williams, 1961, have the trees
// that reach it). No headers and no latency counted.

#include <vector>

namespace meshbed::models {

/// `rates`: [node * nodes + node], 0: no cable, the same in both directions; strength has their unit. Two nodes or
/// more. Cost: every way to part the nodes, Bell's number of them: 21147 for 9.
double strength(int nodes, const std::vector<int>& rates);

}  // namespace meshbed::models

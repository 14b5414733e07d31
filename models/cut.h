#pragma once
// Cut: how fast cables let data into, or out of, any part of the nodes. Pure.
//
// Nomenclature: cut - the rate of all cables between some nodes and all others. With every
// algorithm, data that must cross it take at least their bytes over that rate:
//   broadcast       S into every part without the root, reduce S out of it: S / least_cut. Trees that share no cable
//                   reach it (Edmonds 1973).
//   all_gather      each part's blocks go to the others, reduce_scatter each part's sums come to it: of blocks of b
//                   bytes the larger of the two parts' number of nodes crosses: b / least_cut_per_block.
// No headers and no latency counted.

#include <vector>

namespace meshbed::models {

/// Least of the cuts of all parts without `root`. `rates`: [node * nodes + node], 0: no cable, the same in both
/// directions; a cut has their unit. Two nodes or more, 24 at most. Cost: n^2 for each of 2^(n-1) parts.
double least_cut(int nodes, const std::vector<int>& rates, int root);
/// Least of all cuts, each over the nodes of its larger side.
double least_cut_per_block(int nodes, const std::vector<int>& rates);

}  // namespace meshbed::models

#pragma once
// Clusters: blocks that are resident together, wait for one another and see each other's shared memory. PTX ISA 9.0,
// 2.2.3 and 9.7.13.4.
//
// An address of shared memory has its block's rank + 1 above kRankShift, or 0 for the block's own (.shared::cta); the
// generic address is the same number in the window. So .shared::cta is within .shared::cluster, as PTX has it.

#include <cstdint>

#include "sim/cuda/ptx/warp.h"

namespace meshbed::sim::ptx {

inline constexpr unsigned kRankShift = 24;
inline constexpr std::uint64_t kRankMask = std::uint64_t{0xff} << kRankShift;
inline constexpr std::uint8_t kClusterBarrier = 16;  // beside the 16 of a block, in Warp::barrier

/// Blocks of one cluster, as the launch has them.
inline std::uint32_t cluster_blocks(const std::array<std::uint32_t, 3>& cluster) {
  return cluster[0] * cluster[1] * cluster[2];
}

/// Where the cluster's blocks are within the grid, by their place in the order in which blocks begin.
std::array<std::uint32_t, 3> clustered_position(const LaunchRequest& request, std::uint64_t index);
/// The block's place within its cluster, along an axis, and as a rank.
std::uint32_t place_in_cluster(const Block& block, std::size_t axis);
std::uint32_t rank_in_cluster(const Block& block);

/// The block that has the address's shared memory; nullptr: the cluster has none of that rank. Leaves the offset there.
Block* block_of_address(Block& own, std::uint64_t& address);

/// The cluster's barrier lets its lanes go where all that live have arrived.
void settle_cluster(Block& block);
/// Whether the block, of which all lanes wait, waits for another block of its cluster that still runs.
bool awaits_cluster(const Block& block);

}  // namespace meshbed::sim::ptx

#pragma once
// How a long message is split over parallel paths to the same peer. Pure functions of values.
//
// Cuts lie at multiples of 128 bytes, so that each line of NCCL's LL128 protocol, and each flagged pair of LL, stays
// whole on one path (net_ib cuts there too).

#include <cstddef>
#include <cstdint>
#include <span>

namespace meshbed::net {

inline constexpr std::uint32_t kStripeAlignBytes = 128;
inline constexpr std::size_t kMostPaths = 8;

/// The present load of one path.
struct PathLoad {
  std::uint64_t rate_mbps = 0;
  std::uint64_t in_flight_bytes = 0;  // handed to this port and not acknowledged, of all connections of the process
};

/// shares[i] becomes the bytes for ways[i]; together they are size_bytes. All paths should finish at the same time: the
/// shares make (bytes in flight + share) / rate equal, as far as possible. Loads that differ by less than
/// `hysteresis_bytes` count as equal, so that cuts do not vary from message to message by chance. Every share but the
/// last non-empty one is a multiple of 128 bytes. At most kMostPaths paths; cost: paths^2, no floats.
void split_message(std::uint64_t size_bytes, std::span<const PathLoad> ways, std::uint64_t hysteresis_bytes,
                   std::span<std::uint64_t> shares);

}  // namespace meshbed::net

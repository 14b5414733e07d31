#pragma once
// How a long message is split over parallel ways to the same peer. Pure functions of values.
//
// Cuts lie at multiples of 128 bytes, so that each line of NCCL's LL128 protocol, and each flagged pair of LL, goes
// whole over one way (net_ib cuts there too).

#include <cstddef>
#include <cstdint>
#include <span>

namespace meshbed::net {

inline constexpr std::uint32_t kStripeAlignBytes = 128;
inline constexpr std::size_t kMostPaths = 8;

/// One way, as it is just now.
struct PathLoad {
  std::uint64_t rate_mbps = 0;
  std::uint64_t in_flight_bytes = 0;  // handed to this port and not acknowledged, of all connections of the process
};

/// shares[i] becomes what goes by ways[i]; together they are size_bytes. All ways should run dry at the same time: each
/// gets so much that (bytes in flight + share) / rate is equal, as far as that goes. Loads that differ by less than
/// `hysteresis_bytes` count as equal, so that the chance of the moment does not make every message's cut another one.
/// Every share but the last that is not empty is a multiple of 128 bytes. At most kMostPaths; cost: ways^2, no floats.
void split_message(std::uint64_t size_bytes, std::span<const PathLoad> ways, std::uint64_t hysteresis_bytes,
                   std::span<std::uint64_t> shares);

}  // namespace meshbed::net

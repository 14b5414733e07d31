#include "plugin/net/rdma/striping.h"

#include <algorithm>
#include <array>

#include "plugin/base/check.h"

namespace meshbed::net {
namespace {

/// Loads and rates are clamped to these, so that their products stay below 2^64.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 36U;
constexpr std::uint64_t kMostMbps = std::uint64_t{1} << 22U;

/// A path as a vessel to be filled: its rate, and its bytes in flight beyond the common ground level.
struct Vessel {
  std::uint64_t rate_mbps = 0;
  std::uint64_t stands = 0;  // bytes
  bool takes_part = true;
};

/// The level to which the vessels that take part are filled, as bytes per rate.
struct Level {
  std::uint64_t bytes = 0, rate_mbps = 0;
  std::uint64_t in(const Vessel& vessel) const { return bytes * vessel.rate_mbps / rate_mbps; }
};

Level level_of(std::uint64_t size_bytes, std::span<const Vessel> vessels) {
  Level level{.bytes = size_bytes};
  for (const Vessel& vessel : vessels) {
    if (!vessel.takes_part) continue;
    level.bytes += vessel.stands;
    level.rate_mbps += vessel.rate_mbps;
  }
  return level;
}

}  // namespace

void split_message(std::uint64_t size_bytes, std::span<const PathLoad> ways, std::uint64_t hysteresis_bytes,
                   std::span<std::uint64_t> shares) {
  MESHBED_CHECK(!ways.empty() && ways.size() <= kMostPaths && ways.size() == shares.size());
  std::array<Vessel, kMostPaths> storage;
  const std::span<Vessel> vessels = std::span(storage).first(ways.size());
  for (std::size_t at = 0; at < ways.size(); ++at) {
    vessels[at] = {.rate_mbps = std::clamp<std::uint64_t>(ways[at].rate_mbps, 1, kMostMbps),
                   .stands = std::min(ways[at].in_flight_bytes, kMostBytes)};
  }
  // The load of the path that finishes first is common to all paths and does not count.
  Level ground{.bytes = vessels[0].stands, .rate_mbps = vessels[0].rate_mbps};
  for (const Vessel& vessel : vessels) {
    if (vessel.stands * ground.rate_mbps < ground.bytes * vessel.rate_mbps) ground = {vessel.stands, vessel.rate_mbps};
  }
  for (Vessel& vessel : vessels) {
    const std::uint64_t more = vessel.stands - std::min(ground.in(vessel), vessel.stands);
    vessel.stands = more < hysteresis_bytes ? 0 : more;
  }

  // A vessel above the level gets nothing, which lowers the level for the others; repeat until all are below it.
  Level level = level_of(size_bytes, vessels);
  for (bool settled = false; !settled;) {
    settled = true;
    for (Vessel& vessel : vessels) {
      if (!vessel.takes_part || vessel.stands <= level.in(vessel)) continue;
      vessel.takes_part = settled = false;
    }
    if (!settled) level = level_of(size_bytes, vessels);
  }
  std::uint64_t left = size_bytes;
  std::size_t last = 0;
  for (std::size_t at = 0; at < ways.size(); ++at) {
    const Vessel& vessel = vessels[at];
    const std::uint64_t wanted = vessel.takes_part ? level.in(vessel)-vessel.stands : 0;
    shares[at] = std::min(wanted / kStripeAlignBytes * kStripeAlignBytes, left);
    left -= shares[at];
    if (vessel.takes_part) last = at;
  }
  shares[last] += left;
}

}  // namespace meshbed::net

#include "models/time/channels.h"

#include <algorithm>
#include <cmath>

namespace meshbed::models {
namespace {

/// S for which a channel has threads.
double bytes_of_threads(const CollectiveCall& call, CollectiveAlgorithm algorithm, CollectiveProtocol protocol) {
  constexpr double kThreads = 512, kThreadsOfLl128 = 640;
  constexpr double kBytesOfLl = 8, kBytesOfLl128 = 8, kBytesOfSimple = 64;  // each thread
  if (protocol == CollectiveProtocol::kSimple) return kThreads * kBytesOfSimple;
  if (protocol == CollectiveProtocol::kLl128) return kThreadsOfLl128 * kBytesOfLl128;
  return kThreads * kBytesOfLl * (algorithm == CollectiveAlgorithm::kRing ? call.ranks : 1);
}

}  // namespace

int channels_used(const CollectiveCall& call, CollectiveAlgorithm algorithm, CollectiveProtocol protocol, int most) {
  if (most <= 1) return 1;
  if (is_of_pairs(call) || call.collective == Collective::kSendRecv) return most;
  constexpr double kCellTraffic = 32768, kCellsOfLl = 4;
  const auto bytes = static_cast<double>(call.bytes);
  const double traffic_of_byte = call.collective == Collective::kAllReduce ? 2 : 1;
  const double allowed =
      std::clamp(std::floor(bytes / bytes_of_threads(call, algorithm, protocol)), 1.0, static_cast<double>(most));
  const double of_channel = std::max(kCellTraffic, bytes * traffic_of_byte) / allowed;
  const double cell_bytes = kCellTraffic / (traffic_of_byte * (protocol == CollectiveProtocol::kLl ? kCellsOfLl : 1));
  const double cells = std::max(1.0, std::ceil(bytes / cell_bytes));
  const double of_each = std::min(cells, std::ceil(of_channel / kCellTraffic));
  return static_cast<int>(std::min(std::ceil(cells / of_each), static_cast<double>(most)));
}

}  // namespace meshbed::models

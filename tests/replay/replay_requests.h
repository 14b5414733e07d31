#pragma once
// Clusters and requests of the tests of replays, and what their times are compared with.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "models/topology_generate.h"
#include "plugin/base/units.h"
#include "sim/replay/replay.h"

namespace replay_test {

using namespace meshbed;
using namespace meshbed::sim;

inline constexpr std::uint64_t kRateBps = 100'000'000'000;
inline constexpr Picoseconds kLatencyPs = kPicosecondsPerMicrosecond;

inline models::Cluster cluster_of(models::TopologyKind kind, int nodes, int rails = 1) {
  auto cluster = models::generate_topology({.kind = kind,
                                            .nodes = nodes,
                                            .rails = rails,
                                            .rate_bps = kRateBps,
                                            .latency_ps = kLatencyPs,
                                            .first_subnet = *models::read_prefix("10.0.0.0/24")});
  REQUIRE(cluster.has_value());
  return *cluster;
}

inline ReplayRequest request_on(const models::Cluster& cluster, Collective collective, std::uint64_t elements) {
  return {.cluster = &cluster,
          .collective = collective,
          .algorithm = collective == Collective::kAllToAll ? ReplayAlgorithm::kPairs : ReplayAlgorithm::kRing,
          .ranks = static_cast<int>(cluster.nodes.size()),
          .elements = elements};
}

inline ReplayOutcome replayed(const ReplayRequest& request) {
  const Result<ReplayOutcome> outcome = replay(request);
  REQUIRE_MESSAGE(outcome.has_value(), (outcome ? "" : outcome.error().text));
  for (const Proof& proof : outcome->proofs) {
    CAPTURE(proof.name);
    CAPTURE(proof.detail);
    CHECK((proof.ok || !proof.checked));
  }
  return *outcome;
}

inline std::string refusal_of(const ReplayRequest& request) {
  const Result<ReplayOutcome> outcome = replay(request);
  REQUIRE(!outcome.has_value());
  return outcome.error().text;
}

inline bool is_close(Picoseconds time_ps, double expected_ps) {
  return std::abs(static_cast<double>(time_ps) / expected_ps - 1) <= 1e-9;
}

inline double wire_ps(double bytes) { return bytes * 8e12 / static_cast<double>(kRateBps); }

}  // namespace replay_test

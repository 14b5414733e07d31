// What a replay skips, and its exchanges of halves and tori: against closed forms, the engine's own schedules, and
// sums.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "models/topology_generate.h"
#include "plugin/base/prng.h"
#include "plugin/coll/plan/schedule.h"
#include "sim/replay/halving_schedule.h"
#include "sim/replay/replay.h"
#include "sim/replay/torus_schedule.h"
#include "tests/replay/replay_requests.h"

namespace replay_schedules_test {

using namespace replay_test;

TEST_CASE("periods that repeat exactly are not simulated, and the time is the same to the picosecond") {
  Prng random(11);
  std::uint64_t skipped = 0;
  for (int round = 0; round < 60; ++round) {
    const int n = 3 + static_cast<int>(random.below(30));
    models::Cluster cluster = cluster_of(models::TopologyKind::kRing, n);
    constexpr std::uint64_t kRates[] = {25'000'000'000, 40'000'000'000, 100'000'000'000, 200'000'000'000};
    const bool all_differ = random.below(2) == 0;
    for (models::Cable& cable : cluster.cables) {
      if (!all_differ && random.below(8) > 0) continue;
      cable.rate_bps = kRates[random.below(4)];
      cable.propagation_ps = static_cast<Picoseconds>(random.below(3'000'000));
    }
    constexpr Collective kCollectives[] = {Collective::kAllReduce, Collective::kAllGather, Collective::kBroadcast,
                                           Collective::kReduce};
    const Collective collective = kCollectives[random.below(4)];
    ReplayRequest request = request_on(cluster, collective, static_cast<std::uint64_t>(n) * (1 + random.below(50'000)));
    request.root = static_cast<int>(random.below(static_cast<std::uint64_t>(n)));
    request.slice_bytes = 4096;
    CAPTURE(n);
    CAPTURE(name_of(collective));
    const ReplayOutcome some = replayed(request);
    request.fold = false;
    const ReplayOutcome all = replayed(request);
    CHECK(some.time_ps == all.time_ps);
    CHECK(some.messages == all.messages);
    CHECK(some.payload_bytes == all.payload_bytes);
    CHECK(all.skipped == 0);
    CHECK(some.events + some.skipped == (some.folded ? some.messages / static_cast<std::uint64_t>(n) : some.messages));
    skipped += some.skipped;
  }
  CHECK(skipped > 10'000);
}

TEST_CASE("a long chain is simulated until each cable does the same again and again") {
  models::Cluster cluster = cluster_of(models::TopologyKind::kRing, 64);
  cluster.cables[20].rate_bps = kRateBps / 4;
  ReplayRequest request = request_on(cluster, Collective::kBroadcast, 1ULL << 28U);  // 1 GiB
  request.slice_bytes = 64U << 10U;
  const ReplayOutcome some = replayed(request);
  CHECK(some.messages == 63ULL * 16'384);
  CHECK(some.events < some.messages / 50);
  request.fold = false;
  CHECK(replayed(request).time_ps == some.time_ps);
}

TEST_CASE("halving and doubling is the engine's schedule, message by message") {
  for (int n = 2; n <= 33; ++n) {
    const models::Cluster cluster = cluster_of(models::TopologyKind::kSwitch, n);
    ReplayHops hops(cluster);
    ReplayRequest request = request_on(cluster, Collective::kAllReduce, 1000 + static_cast<std::uint64_t>(n));
    const HalvingSteps steps(static_cast<std::uint32_t>(n));
    std::vector<std::vector<ReplayHop>> of_ranks(static_cast<std::size_t>(n));
    for (auto& each : of_ranks) each.assign(16, *hops.hop(0, 1, 0));
    HalvingSchedule schedule(request, of_ranks);
    for (int rank = 0; rank < n; ++rank) {
      CAPTURE(n);
      CAPTURE(rank);
      const coll::Schedule wanted =
          coll::make_schedule(coll::Algorithm::kHalvingDoubling, {.collective = Collective::kAllReduce,
                                                                  .rank = rank,
                                                                  .ranks = n,
                                                                  .count = request.elements,
                                                                  .slice_bytes_max = 1U << 30U});
      std::uint32_t step = 0;
      for (const coll::Transfer& transfer : wanted.transfers) {
        if (transfer.receives) continue;
        const ReplayMessage message = schedule.message(static_cast<std::uint32_t>(rank), step++);
        CHECK(message.to == static_cast<std::uint32_t>(transfer.peer));
        CHECK(message.bytes == 4 * transfer.range.count);
      }
      CHECK(step == schedule.steps(static_cast<std::uint32_t>(rank)));
    }
  }
}

TEST_CASE("halving and doubling takes its latencies and a ring's bytes, and is whole at every size") {
  for (const int n : {2, 3, 4, 5, 7, 8, 16, 23, 64, 100}) {
    const models::Cluster cluster = cluster_of(models::TopologyKind::kSwitch, n);
    for (const std::uint64_t elements : {static_cast<unsigned long long>(n), 64ULL * 25, 100'003ULL}) {
      CAPTURE(n);
      CAPTURE(elements);
      ReplayRequest request = request_on(cluster, Collective::kAllReduce, elements);
      request.algorithm = ReplayAlgorithm::kHalvingDoubling;
      const ReplayOutcome outcome = replayed(request);
      if (!std::has_single_bit(static_cast<unsigned>(n)) || elements % static_cast<std::uint64_t>(n) != 0) continue;
      const double levels = std::bit_width(static_cast<unsigned>(n)) - 1, bytes = 4.0 * static_cast<double>(elements);
      CHECK(is_close(outcome.time_ps, 2 * levels * 2 * kLatencyPs + wire_ps(2.0 * (n - 1) / n * bytes)));
    }
  }
  // Ports of several rates: partners get ahead of one another, and all contributions arrive once all the same.
  Prng random(5);
  for (int round = 0; round < 20; ++round) {
    const int n = 3 + static_cast<int>(random.below(30));
    models::Cluster cluster = cluster_of(models::TopologyKind::kSwitch, n);
    for (models::Node& node : cluster.nodes) node.nics.front().rate_bps = kRateBps / (1 + random.below(4));
    ReplayRequest request = request_on(cluster, Collective::kAllReduce, 5000);
    request.algorithm = ReplayAlgorithm::kHalvingDoubling;
    replayed(request);
  }
}

namespace {

models::Cluster torus_of(const std::vector<int>& shape) {
  int nodes = 1;
  for (const int length : shape) nodes *= length;
  auto cluster = models::generate_topology({.kind = models::TopologyKind::kTorus,
                                            .nodes = nodes,
                                            .shape = shape,
                                            .rate_bps = kRateBps,
                                            .latency_ps = kLatencyPs,
                                            .first_subnet = *models::read_prefix("10.0.0.0/24")});
  REQUIRE(cluster.has_value());
  return *cluster;
}

ReplayRequest torus_request(const models::Cluster& cluster, std::uint64_t elements) {
  ReplayRequest request = request_on(cluster, Collective::kAllReduce, elements);
  request.algorithm = ReplayAlgorithm::kTorus;
  request.shape = cluster.torus_shape;
  return request;
}

}  // namespace

TEST_CASE("dimension by dimension, every rank of a torus gets the sum of all") {
  for (const std::vector<int>& shape :
       {std::vector<int>{4}, {3, 3}, {4, 2}, {2, 3, 4}, {5, 1, 3}, {2, 2, 2}, {3, 4, 2, 2}}) {
    const models::Cluster cluster = torus_of(shape);
    const TorusShape torus(shape);
    const std::uint32_t ranks = torus.ranks();
    CAPTURE(ranks);
    const std::uint64_t elements = 7 * torus.parts() * ranks + 5;
    const ReplayRequest request = torus_request(cluster, elements);
    ReplayHops hops(cluster);
    TorusSchedule schedule(request, torus, std::vector<ReplayHop>(ranks * torus.parts(), *hops.hop(0, 1, 0)), false);
    // Rank r gives r + 1 of each element. Messages of one index leave all together.
    std::vector<std::vector<std::uint64_t>> data;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) data.emplace_back(elements, rank + 1);
    for (std::uint32_t index = 0; index < schedule.steps(0); ++index) {
      const auto before = data;
      for (std::uint32_t stream = 0; stream < schedule.streams(); ++stream) {
        if (index >= schedule.steps(stream)) continue;
        const auto range = schedule.elements_of(stream, index);
        const std::uint32_t to = schedule.receiver(stream, index);
        CHECK(to / ranks == stream / ranks);
        for (std::uint64_t at = range.begin; at < range.begin + range.count; ++at) {
          std::uint64_t& there = data[to % ranks][at];
          const std::uint64_t value = before[stream % ranks][at];
          there = schedule.reduces(stream / ranks, index) ? there + value : value;
        }
      }
    }
    for (const std::vector<std::uint64_t>& of_rank : data) {
      CHECK(std::all_of(of_rank.begin(), of_rank.end(),
                        [&](std::uint64_t each) { return each == std::uint64_t{ranks} * (ranks + 1) / 2; }));
    }
    replayed(request);
  }
}

TEST_CASE("an all_reduce on a cube takes its rings' latencies and bytes, folded or not") {
  for (const std::vector<int>& shape : {std::vector<int>{8}, {4, 4}, {3, 3, 3}, {4, 4, 4}, {3, 3, 3, 3}}) {
    const models::Cluster cluster = torus_of(shape);
    const double n = static_cast<double>(cluster.nodes.size()), d = static_cast<double>(shape.size()),
                 k = shape.front();
    CAPTURE(n);
    ReplayRequest request = torus_request(cluster, static_cast<std::uint64_t>(2 * d * n * 50));
    const ReplayOutcome one = replayed(request);
    CHECK(one.folded);
    const double bytes = 4 * 2 * d * n * 50;
    CHECK(is_close(one.time_ps, 2 * d * (k - 1) * kLatencyPs + wire_ps((n - 1) / n * bytes / d)));
    request.fold = false;
    const ReplayOutcome all = replayed(request);
    CHECK(!all.contended);
    CHECK(all.time_ps == one.time_ps);
    CHECK(all.messages == one.messages);
    CHECK(all.payload_bytes == one.payload_bytes);
  }
}

}  // namespace replay_schedules_test

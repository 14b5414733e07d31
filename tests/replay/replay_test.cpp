// Replays against closed forms, against a recurrence, and against the engine's own plan.
#include "sim/replay/replay.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "models/topology_generate.h"
#include "plugin/base/prng.h"
#include "plugin/coll/plan/plan.h"
#include "plugin/coll/plan/schedule.h"
#include "sim/replay/halving_schedule.h"
#include "sim/replay/schedules.h"
#include "sim/replay/torus_schedule.h"

namespace replay_test {

using namespace meshbed;
using namespace meshbed::sim;

namespace {

constexpr std::uint64_t kRateBps = 100'000'000'000;
constexpr Picoseconds kLatencyPs = kPicosecondsPerMicrosecond;

models::Cluster cluster_of(models::TopologyKind kind, int nodes, int rails = 1) {
  auto cluster = models::generate_topology({.kind = kind,
                                            .nodes = nodes,
                                            .rails = rails,
                                            .rate_bps = kRateBps,
                                            .latency_ps = kLatencyPs,
                                            .first_subnet = *models::read_prefix("10.0.0.0/24")});
  REQUIRE(cluster.has_value());
  return *cluster;
}

ReplayRequest request_on(const models::Cluster& cluster, Collective collective, std::uint64_t elements) {
  return {.cluster = &cluster,
          .collective = collective,
          .algorithm = collective == Collective::kAllToAll ? ReplayAlgorithm::kPairs : ReplayAlgorithm::kRing,
          .ranks = static_cast<int>(cluster.nodes.size()),
          .elements = elements};
}

ReplayOutcome replayed(const ReplayRequest& request) {
  const Result<ReplayOutcome> outcome = replay(request);
  REQUIRE_MESSAGE(outcome.has_value(), (outcome ? "" : outcome.error().text));
  for (const Proof& proof : outcome->proofs) {
    CAPTURE(proof.name);
    CAPTURE(proof.detail);
    CHECK((proof.ok || !proof.checked));
  }
  return *outcome;
}

std::string refusal_of(const ReplayRequest& request) {
  const Result<ReplayOutcome> outcome = replay(request);
  REQUIRE(!outcome.has_value());
  return outcome.error().text;
}

bool is_close(Picoseconds time_ps, double expected_ps) {
  return std::abs(static_cast<double>(time_ps) / expected_ps - 1) <= 1e-9;
}

double wire_ps(double bytes) { return bytes * 8e12 / static_cast<double>(kRateBps); }

/// When message k of each rank has arrived, from rank r to r + 1: the sender has received k messages, and has sent k.
Picoseconds ring_recurrence(const models::Cluster& cluster, std::uint64_t elements) {
  const std::size_t n = cluster.nodes.size();
  std::vector<Picoseconds> free_ps(n, 0), arrived_ps(n, 0);
  Picoseconds end_ps = 0;
  for (std::size_t step = 0; step < 2 * (n - 1); ++step) {
    std::vector<Picoseconds> next(n, 0);
    for (std::size_t rank = 0; rank < n; ++rank) {
      const std::size_t chunk = (rank + 2 * n - 1 - step % n) % n;
      const std::uint64_t bytes = 4 * coll::part_of(elements, n, chunk).count;
      const models::Cable& cable = cluster.cables[rank];  // from node r to the next one
      free_ps[rank] = std::max(free_ps[rank], arrived_ps[rank]) + wire_time_ps(bytes, cable.rate_bps);
      next[(rank + 1) % n] = free_ps[rank] + cable.propagation_ps;
      end_ps = std::max(end_ps, next[(rank + 1) % n]);
    }
    arrived_ps = next;
  }
  return end_ps;
}

}  // namespace

TEST_CASE("a ring takes its steps times the longest chunk and the latency, folded or not") {
  for (const int n : {2, 3, 4, 5, 7, 8, 16, 33, 64}) {
    const models::Cluster cluster = cluster_of(models::TopologyKind::kRing, n);
    for (const std::uint64_t elements : {64ULL, 1000ULL, 65'536ULL, 1'000'003ULL}) {
      if (elements < static_cast<std::uint64_t>(n)) continue;
      CAPTURE(n);
      CAPTURE(elements);
      const auto ranks = static_cast<std::uint64_t>(n);
      ReplayRequest request = request_on(cluster, Collective::kAllReduce, elements);
      const ReplayOutcome one = replayed(request);
      CHECK(one.folded == (elements % ranks == 0));
      CHECK(one.messages == 2 * ranks * (ranks - 1));
      CHECK(one.payload_bytes == 2 * (ranks - 1) * elements * 4);
      const double longest = std::ceil(static_cast<double>(elements) / n);
      CHECK(is_close(one.time_ps, 2.0 * (n - 1) * (wire_ps(4 * longest) + kLatencyPs)));
      request.fold = false;
      const ReplayOutcome all = replayed(request);
      CHECK(!all.folded);
      CHECK(all.time_ps == one.time_ps);
      CHECK(all.messages == one.messages);
      CHECK(all.payload_bytes == one.payload_bytes);
      CHECK(all.events == all.messages);

      for (const Collective half : {Collective::kAllGather, Collective::kReduceScatter}) {
        ReplayRequest blocks = request_on(cluster, half, elements);
        const ReplayOutcome whole = replayed(blocks);
        CHECK(whole.folded);
        CHECK(is_close(whole.time_ps, (n - 1) * (wire_ps(4.0 * static_cast<double>(elements)) + kLatencyPs)));
        blocks.fold = false;
        CHECK(replayed(blocks).time_ps == whole.time_ps);
      }
    }
  }
}

TEST_CASE("a ring of unlike cables takes what the recurrence of its messages says") {
  Prng random(7);
  for (int round = 0; round < 40; ++round) {
    const int n = 3 + static_cast<int>(random.below(12));
    models::Cluster cluster = cluster_of(models::TopologyKind::kRing, n);
    constexpr std::uint64_t kRates[] = {25'000'000'000, 40'000'000'000, 100'000'000'000, 200'000'000'000};
    for (models::Cable& cable : cluster.cables) {
      cable.rate_bps = kRates[random.below(4)];
      cable.propagation_ps = static_cast<Picoseconds>(random.below(3'000'000));
    }
    const std::uint64_t elements = static_cast<std::uint64_t>(n) + random.below(100'000);
    CAPTURE(n);
    CAPTURE(elements);
    const ReplayOutcome outcome = replayed(request_on(cluster, Collective::kAllReduce, elements));
    CHECK(!outcome.folded);
    CHECK(outcome.time_ps == ring_recurrence(cluster, elements));
  }
}

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

TEST_CASE("a ring's schedule is the engine's plan, message by message") {
  for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter}) {
    for (int n = 2; n <= 9; ++n) {
      const models::Cluster cluster = cluster_of(models::TopologyKind::kRing, n);
      ReplayHops hops(cluster);
      for (const int channels : {1, 2, 3}) {
        ReplayRequest request = request_on(cluster, collective, 1000 + static_cast<std::uint64_t>(n));
        request.channels = channels;
        const ReplayHop hop = *hops.hop(0, 1, 0);
        RingSchedule schedule(request, std::vector<ReplayHop>(static_cast<std::size_t>(channels * n), hop), false);
        for (int channel = 0; channel < channels; ++channel) {
          for (int rank = 0; rank < n; ++rank) {
            CAPTURE(n);
            CAPTURE(channel);
            CAPTURE(rank);
            const coll::Plan plan = coll::make_plan({.collective = collective,
                                                     .rank = rank,
                                                     .ranks = n,
                                                     .count = request.elements,
                                                     .channel = channel,
                                                     .channels = channels,
                                                     .slice_bytes_max = 1U << 30U});
            const auto stream = static_cast<std::uint32_t>(channel * n + rank);
            REQUIRE(plan.send_steps == schedule.steps(stream));
            for (std::uint32_t step = 0; step < schedule.steps(stream); ++step) {
              const ReplayMessage message = schedule.message(stream, step);
              CHECK(message.bytes == 4 * coll::send_step(plan, step).count);
              CHECK(message.to == static_cast<std::uint32_t>(channel * n + plan.send_peer));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("a chain takes its first slice over all hops and the others behind it") {
  for (const int n : {2, 3, 8, 17}) {
    const models::Cluster cluster = cluster_of(models::TopologyKind::kRing, n);
    for (const Collective collective : {Collective::kBroadcast, Collective::kReduce}) {
      for (const std::uint64_t elements : {1ULL, 100ULL, 1024ULL, 2500ULL}) {
        CAPTURE(n);
        CAPTURE(elements);
        ReplayRequest request = request_on(cluster, collective, elements);
        request.root = n / 2;
        request.slice_bytes = 1024;
        const ReplayOutcome outcome = replayed(request);
        const double bytes = 4.0 * static_cast<double>(elements), first = std::min(bytes, 1024.0);
        CHECK(outcome.messages == static_cast<std::uint64_t>((n - 1) * std::ceil(bytes / 1024)));
        CHECK(is_close(outcome.time_ps, (n - 1) * (wire_ps(first) + kLatencyPs) + wire_ps(bytes - first)));
      }
    }
  }
}

TEST_CASE("a binomial tree of a power of two takes its levels, from any root") {
  for (const int n : {2, 4, 8, 64}) {
    const models::Cluster cluster = cluster_of(models::TopologyKind::kSwitch, n);
    for (const Collective collective : {Collective::kAllReduce, Collective::kBroadcast, Collective::kReduce}) {
      ReplayRequest request = request_on(cluster, collective, 1001);
      request.algorithm = ReplayAlgorithm::kTree;
      request.root = collective == Collective::kAllReduce ? 0 : n - 1;
      const ReplayOutcome outcome = replayed(request);
      const int levels = std::bit_width(static_cast<unsigned>(n)) - 1;
      const int passes = collective == Collective::kAllReduce ? 2 : 1;
      CHECK(!outcome.contended);
      CHECK(outcome.messages == static_cast<std::uint64_t>(passes * (n - 1)));
      CHECK(is_close(outcome.time_ps, passes * levels * (wire_ps(4004) + 2 * kLatencyPs)));
    }
  }
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

TEST_CASE("a tree of other sizes shares links where two children come at one time, and stays complete") {
  for (int n = 3; n <= 40; ++n) {
    if (std::has_single_bit(static_cast<unsigned>(n))) continue;
    const models::Cluster cluster = cluster_of(models::TopologyKind::kSwitch, n);
    ReplayRequest request = request_on(cluster, Collective::kAllReduce, 10'000);
    request.algorithm = ReplayAlgorithm::kTree;
    const ReplayOutcome outcome = replayed(request);
    CAPTURE(n);
    CHECK(outcome.messages == 2 * static_cast<std::uint64_t>(n - 1));
    const int levels = std::bit_width(static_cast<unsigned>(n - 1));
    CHECK(static_cast<double>(outcome.time_ps) >=
          2 * levels * (wire_ps(40'000) + 2 * kLatencyPs) - wire_ps(40'000) * levels);
  }
}

TEST_CASE("pairs on one switch never meet: all leave one after the other, folded or not") {
  for (const int n : {2, 3, 5, 8, 33}) {
    const models::Cluster cluster = cluster_of(models::TopologyKind::kSwitch, n);
    ReplayRequest request = request_on(cluster, Collective::kAllToAll, 4099);
    const ReplayOutcome one = replayed(request);
    CHECK(one.folded);
    CHECK(!one.contended);
    CHECK(one.messages == static_cast<std::uint64_t>(n * (n - 1)));
    CHECK(is_close(one.time_ps, (n - 1) * wire_ps(4 * 4099) + 2 * kLatencyPs));
    request.fold = false;
    const ReplayOutcome all = replayed(request);
    CHECK(all.time_ps == one.time_ps);
    CHECK(all.payload_bytes == one.payload_bytes);
  }
}

TEST_CASE("a slow port in an alltoall makes messages share its link, and all arrive once") {
  models::Cluster cluster = cluster_of(models::TopologyKind::kSwitch, 6);
  cluster.at(2).nic(0).rate_bps = kRateBps / 4;
  const ReplayOutcome outcome = replayed(request_on(cluster, Collective::kAllToAll, 100'000));
  CHECK(outcome.contended);
  CHECK(outcome.closed_form_ps == 0);
  CHECK(outcome.messages == 30);
  // Five blocks into the slow port, or out of it.
  CHECK(static_cast<double>(outcome.time_ps) >= 5 * 4 * wire_ps(400'000));
  CHECK(static_cast<double>(outcome.time_ps) <= 2 * 5 * 4 * wire_ps(400'000));
}

TEST_CASE("rails: each channel has a link of its own, and channels of one link share it") {
  const models::Cluster rails = cluster_of(models::TopologyKind::kSwitch, 8, 4);
  ReplayRequest request = request_on(rails, Collective::kAllReduce, 1U << 20U);
  request.channels = 4;
  const ReplayOutcome four = replayed(request);
  CHECK(four.folded);
  CHECK(is_close(four.time_ps, 14 * (wire_ps((4 << 20U) / 32.0) + 2 * kLatencyPs)));
  request.fold = false;
  CHECK(replayed(request).time_ps == four.time_ps);

  const models::Cluster single = cluster_of(models::TopologyKind::kSwitch, 8);
  request.cluster = &single;
  const ReplayOutcome shared = replayed(request);
  CHECK(shared.contended);
  CHECK(shared.time_ps > 3 * four.time_ps);
}

TEST_CASE("the same replay has the same digest, and another size another one") {
  const models::Cluster cluster = cluster_of(models::TopologyKind::kRing, 12);
  const auto digest = [&](std::uint64_t elements) {
    return replayed(request_on(cluster, Collective::kAllReduce, elements)).digest;
  };
  CHECK(digest(10'007) == digest(10'007));
  CHECK(digest(10'007) != digest(10'008));
}

TEST_CASE("detail plugin: folded and unfolded take the same time, and every receive is announced once") {
  for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather}) {
    for (const int n : {3, 4, 8, 16}) {
      const models::Cluster cluster = cluster_of(models::TopologyKind::kRing, n);
      ReplayRequest request = request_on(cluster, collective, 65'536ULL * static_cast<std::uint64_t>(n));
      request.detail = ReplayDetail::kPlugin;
      request.slice_elements = 16'384;
      const ReplayOutcome one = replayed(request);
      request.fold = false;
      std::vector<ReplayRecord> messages;
      request.trace = &messages;
      const ReplayOutcome all = replayed(request);
      CHECK(one.folded);
      CHECK(!all.folded);
      CHECK(one.time_ps == all.time_ps);
      CHECK(one.messages == all.messages);
      CHECK(one.payload_bytes == all.payload_bytes);
      CHECK(messages.size() == all.messages);
    }
  }
}

TEST_CASE("detail plugin refuses links that clear-to-send writes would share with data") {
  const models::Cluster box = cluster_of(models::TopologyKind::kSwitch, 4);
  ReplayRequest request = request_on(box, Collective::kAllReduce, 1000);
  request.detail = ReplayDetail::kPlugin;
  CHECK(
      refusal_of(request) ==
      "clear-to-send writes would share the links between node0 and node1 with data; detail plugin has cables between "
      "neighbours alone");
  const models::Cluster rails = cluster_of(models::TopologyKind::kRing, 4, 2);
  request.cluster = &rails;
  CHECK(refusal_of(request) ==
        "several links join node0 and node1, over which the plugin would stripe; detail plugin has one");
  const models::Cluster pair = cluster_of(models::TopologyKind::kRing, 2);
  request.cluster = &pair;
  request.ranks = 2;
  CHECK(refusal_of(request) == "detail plugin needs three ranks: two send both ways over one cable");
  const models::Cluster ring = cluster_of(models::TopologyKind::kRing, 4);
  request = request_on(ring, Collective::kReduceScatter, 1000);
  request.detail = ReplayDetail::kPlugin;
  CHECK(refusal_of(request) ==
        "detail plugin has all_reduce, all_gather and broadcast round the ring, not reduce_scatter");
}

TEST_CASE("what cannot be replayed is refused by name") {
  const models::Cluster one = cluster_of(models::TopologyKind::kRing, 2);
  ReplayRequest request = request_on(one, Collective::kAllReduce, 100);
  request.ranks = 1;
  CHECK(refusal_of(request) == "a replay needs two ranks or more: one rank sends no message");
  request = request_on(one, Collective::kAllReduce, 0);
  CHECK(refusal_of(request) == "a replay needs a byte or more: without data no message is sent");
  request = request_on(one, Collective::kAllReduce, 3);
  request.channels = 2;
  CHECK(refusal_of(request) ==
        "3 elements for 2 ranks on 2 channels: a replay needs an element of each for every message");
  request = request_on(one, Collective::kGather, 100);
  CHECK(refusal_of(request) == "gather is not replayed by that algorithm");
  request = request_on(one, Collective::kAllToAll, 100);
  CHECK(refusal_of(request) ==
        "an alltoall is replayed on one switch that joins all ranks; this cluster has 0 switches");
  const models::Cluster line = cluster_of(models::TopologyKind::kLine, 3);
  CHECK(refusal_of(request_on(line, Collective::kAllReduce, 100)) ==
        "no cable and no switch joins node2 and node0, and a replay has no relays");
}

TEST_CASE("events come in order of time, and those of one time as they were pushed") {
  Prng random(3);
  TimeQueue queue;
  std::vector<TimedEvent> waiting;
  Picoseconds now_ps = 0;
  std::uint32_t pushed = 0;
  for (int round = 0; round < 20'000; ++round) {
    if (waiting.empty() || random.below(5) < 2 + (pushed < 5000 ? 1 : 0)) {
      const auto span = std::uint64_t{1} << random.below(40);
      const TimedEvent event{now_ps + static_cast<Picoseconds>(random.below(span)), pushed++, 0};
      queue.push(event);
      waiting.push_back(event);
    } else {
      const auto first = std::min_element(waiting.begin(), waiting.end(), [](const auto& left, const auto& right) {
        return left.when_ps < right.when_ps;
      });
      const TimedEvent event = queue.pop();
      REQUIRE(event.stream == first->stream);
      now_ps = event.when_ps;
      waiting.erase(first);
    }
  }
  CHECK(queue.empty() == waiting.empty());
}

}  // namespace replay_test

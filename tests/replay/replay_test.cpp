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
#include "sim/replay/schedules.h"
#include "tests/replay/replay_requests.h"

namespace replay_test {

using namespace meshbed;
using namespace meshbed::sim;

namespace {

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

#include "models/algorithm.h"

#include <doctest/doctest.h>

#include <cstddef>

#include "models/link.h"

namespace algorithm_test {

using namespace meshbed;
using namespace meshbed::models;

namespace {

constexpr std::uint64_t k100G = 100'000'000'000;

std::vector<RingHop> ring(std::size_t ranks, Picoseconds latency_ps = 1'000'000) {
  return std::vector<RingHop>(ranks, RingHop{.rate_bps = k100G, .latency_ps = latency_ps, .pmtu_bytes = 4096});
}

/// What no ring can beat.
Picoseconds ring_ps(Collective op, std::uint64_t bytes, const std::vector<RingHop>& hops, int root = 0) {
  return ring_bound(op, bytes, hops, root).time_ps;
}

}  // namespace

TEST_CASE("a ring all-reduce takes 2(n-1)/n of its bytes with headers over the rate, plus one latency") {
  // 3 ranks, 48 MiB: 64 MiB leave every rank, as 16384 packets of 4 KiB with 82 bytes of headers each.
  const Picoseconds expected = wire_time_ps(64 * kMiB + 16384 * 82, k100G) + 1'000'000;
  CHECK(ring_ps(Collective::kAllReduce, 48 * kMiB, ring(3)) == expected);
}

TEST_CASE("a ring all-reduce of a few bytes takes 2(n-1) latencies") {
  CHECK(ring_ps(Collective::kAllReduce, 8, ring(8)) == 14 * 1'000'000);
}

TEST_CASE("every hop of a ring carries the same, so that the slowest one sets the pace of the whole ring") {
  constexpr std::uint64_t kSlow = k100G / 4;
  auto hops = ring(4, 1'000);
  hops[1].rate_bps = kSlow;
  hops[1].latency_ps = 5'000;
  const auto over_slow = [](std::uint64_t payload_bytes) {
    return wire_time_ps(wire_bytes(payload_bytes, 4096, 0), kSlow) + 5'000;
  };
  CHECK(ring_ps(Collective::kAllGather, 4 * kMiB, hops) == over_slow(3 * kMiB));
  CHECK(ring_ps(Collective::kReduceScatter, 4 * kMiB, hops) == over_slow(3 * kMiB));
  CHECK(ring_ps(Collective::kBroadcast, 4 * kMiB, hops) == over_slow(4 * kMiB));
  CHECK(ring_ps(Collective::kSendRecv, 4 * kMiB, hops) == over_slow(4 * kMiB));
  CHECK(ring_ps(Collective::kAllReduce, 4 * kMiB, hops) == over_slow(2 * (3 * kMiB - 256)));
  CHECK(ring_bound(Collective::kAllReduce, 4 * kMiB, hops).equal_shares);
  CHECK_FALSE(ring_bound(Collective::kAllGather, 4 * kMiB, hops).equal_shares);
}

TEST_CASE("where all hops are alike, an all_reduce of whatever shares has the bound of equal ones") {
  for (int ranks = 2; ranks <= 9; ++ranks) {
    for (const std::uint64_t bytes : {std::uint64_t{4}, std::uint64_t{8}, 3 * kKiB, kMiB, 100 * kMiB}) {
      CHECK_FALSE(ring_bound(Collective::kAllReduce, bytes, ring(static_cast<std::size_t>(ranks))).equal_shares);
    }
  }
}

TEST_CASE("a hop that is a little slower leaves the bound to all hops together, or to itself, whichever says more") {
  // 2(n-1)S over n hops against 2(n-1)S/n over the slow one: n rates together against n times the slowest.
  auto hops = ring(3, 0);
  hops[0].rate_bps = k100G - 1'000'000;
  CHECK(ring_bound(Collective::kAllReduce, kMiB, hops).time_ps ==
        wire_time_ps(wire_bytes(4 * kMiB, 4096, 0), 3 * k100G - 1'000'000));
  hops[0].rate_bps = k100G / 2;
  CHECK(ring_bound(Collective::kAllReduce, kMiB, hops).time_ps ==
        wire_time_ps(wire_bytes(2 * (kMiB - kMiB / 3 - 256), 4096, 0), k100G / 2));
}

TEST_CASE("no hop carries less than the bound says: the engine's shares, walked for 2..9 ranks and 1..64 channels") {
  for (std::uint64_t ranks = 2; ranks <= 9; ++ranks) {
    for (const std::uint64_t channels : {1, 2, 5, 64}) {
      for (const std::uint64_t count : {1, 2, 63, 1000, 65'537}) {
        std::vector<std::uint64_t> carried_bytes(ranks, 0);
        for (std::uint64_t channel = 0; channel < channels; ++channel) {
          const std::uint64_t part = count / channels + (channel < count % channels ? 1 : 0);
          for (std::uint64_t share = 0; share < ranks; ++share) {
            const std::uint64_t share_bytes = 4 * (part / ranks + (share < part % ranks ? 1 : 0));
            // As sums from rank share + 1 to rank share, whole from there on: n - 1 hops each.
            for (std::uint64_t step = 0; step + 1 < ranks; ++step) {
              carried_bytes[(share + 1 + step) % ranks] += share_bytes;
              carried_bytes[(share + step) % ranks] += share_bytes;
            }
          }
        }
        for (std::size_t hop = 0; hop < ranks; ++hop) {
          auto hops = ring(ranks, 0);
          hops[hop].rate_bps = 1'000'000;  // so slow that nothing else counts
          CHECK(ring_ps(Collective::kAllReduce, 4 * count, hops) <=
                wire_time_ps(wire_bytes(carried_bytes[hop], 4096, 0), hops[hop].rate_bps));
        }
      }
    }
  }
}

TEST_CASE("a broadcast does not use the hop into its root") {
  auto hops = ring(3, 0);
  hops[2].rate_bps = 1;  // 2 -> 0, the hop into root 0
  CHECK(ring_ps(Collective::kBroadcast, kMiB, hops, 0) == wire_time_ps(wire_bytes(2 * kMiB, 4096, 0), 2 * k100G));
}

TEST_CASE("of a ring over two nodes of two ranks, only the two hops between the nodes count") {
  auto hops = ring(4);
  hops[0].rate_bps = hops[2].rate_bps = 0;  // 0 -> 1 and 2 -> 3 stay within their nodes
  const auto over_two = [](std::uint64_t payload_bytes) {
    return wire_time_ps(wire_bytes(payload_bytes, 4096, 0), 2 * k100G) + 1'000'000;
  };
  // Equal shares: each hop carries 2 * 3/4 of the bytes, less the rounding of a share.
  CHECK(ring_ps(Collective::kAllReduce, 4 * kMiB, hops) == over_two(4 * (3 * kMiB - 256)));
  CHECK(ring_ps(Collective::kAllGather, 4 * kMiB, hops) == over_two(2 * 3 * kMiB));
  CHECK(ring_ps(Collective::kReduceScatter, 4 * kMiB, hops) == over_two(2 * 3 * kMiB));
  CHECK(ring_ps(Collective::kSendRecv, 4 * kMiB, hops) == over_two(2 * 4 * kMiB));
  // 3 -> 0 leads into the root: one hop is left. From root 1 on, both are used.
  CHECK(ring_ps(Collective::kBroadcast, 4 * kMiB, hops, 0) ==
        wire_time_ps(wire_bytes(4 * kMiB, 4096, 0), k100G) + 1'000'000);
  CHECK(ring_ps(Collective::kBroadcast, 4 * kMiB, hops, 1) == over_two(2 * 4 * kMiB));
  // A few bytes still walk the chain.
  CHECK(ring_ps(Collective::kAllReduce, 8, hops) == 2 * 1'000'000);
  CHECK(ring_ps(Collective::kAllReduce, kMiB, std::vector<RingHop>(4)) == 0);
}

TEST_CASE("a ring of one rank, and a collective of no bytes, take no time") {
  CHECK(ring_ps(Collective::kAllReduce, kMiB, ring(1)) == 0);
  CHECK(ring_ps(Collective::kAllReduce, 0, ring(3)) == 0);
  CHECK(any_algorithm_bound_ps(Collective::kAllReduce, kMiB, {NodePort{k100G, 1}}) == 0);
}

TEST_CASE("no algorithm gathers faster than the slowest node can take in the others' bytes") {
  const std::vector<NodePort> nodes{{2 * k100G, 1}, {2 * k100G, 1}, {k100G, 1}};
  CHECK(any_algorithm_bound_ps(Collective::kAllGather, 3 * kMiB, nodes) == wire_time_ps(2 * kMiB, k100G));
}

TEST_CASE("no algorithm reduces faster than all NICs together can carry 2(N-1)S") {
  const std::vector<NodePort> nodes(3, NodePort{2 * k100G, 1});
  CHECK(any_algorithm_bound_ps(Collective::kAllReduce, kMiB, nodes) == wire_time_ps(4 * kMiB, 6 * k100G));
}

TEST_CASE("no algorithm reduces faster than the narrowest node can take in, or give, all of it once") {
  // Together they carry 4 MiB over 2 x 200 + 25 Gb/s; the third one alone needs longer for its 1 MiB.
  const std::vector<NodePort> nodes{{2 * k100G, 1}, {2 * k100G, 1}, {k100G / 4, 1}};
  CHECK(any_algorithm_bound_ps(Collective::kAllReduce, kMiB, nodes) == wire_time_ps(kMiB, k100G / 4));
}

TEST_CASE("ranks that share a node need no NIC between them") {
  const std::vector<NodePort> nodes(2, NodePort{k100G, 2});
  CHECK(any_algorithm_bound_ps(Collective::kAllGather, 4 * kMiB, nodes) == wire_time_ps(2 * kMiB, k100G));
  CHECK(any_algorithm_bound_ps(Collective::kSendRecv, 4 * kMiB, nodes) == 0);
  // Each of a node's two ranks gives a quarter to each of the two ranks over there.
  CHECK(any_algorithm_bound_ps(Collective::kAllToAll, 4 * kMiB, nodes) == wire_time_ps(4 * kMiB, k100G));
}

TEST_CASE("the ring's bound is never below the bound of all algorithms with the same ports") {
  for (int ranks = 2; ranks <= 9; ++ranks) {
    for (const std::uint64_t bytes : {std::uint64_t{64}, 3 * kKiB, kMiB, 100 * kMiB}) {
      for (int op = 0; op < 6; ++op) {
        if (static_cast<Collective>(op) == Collective::kAllToAll) continue;  // goes round no ring
        const std::vector<NodePort> nodes(static_cast<std::size_t>(ranks), NodePort{k100G, 1});
        CHECK(ring_ps(static_cast<Collective>(op), bytes, ring(static_cast<std::size_t>(ranks))) >=
              any_algorithm_bound_ps(static_cast<Collective>(op), bytes, nodes));
      }
    }
  }
}

TEST_CASE("bus bandwidth factors are those of nccl-tests") {
  CHECK(bus_factor(Collective::kAllReduce, 4) == doctest::Approx(1.5));
  CHECK(bus_factor(Collective::kAllGather, 4) == doctest::Approx(0.75));
  CHECK(bus_factor(Collective::kReduceScatter, 4) == doctest::Approx(0.75));
  CHECK(bus_factor(Collective::kAllToAll, 4) == doctest::Approx(0.75));
  CHECK(bus_factor(Collective::kBroadcast, 4) == doctest::Approx(1.0));
  CHECK(bus_factor(Collective::kSendRecv, 4) == doctest::Approx(1.0));
  CHECK(bus_factor(Collective::kReduce, 4) == doctest::Approx(1.0));
  CHECK(bus_factor(Collective::kGather, 4) == doctest::Approx(0.75));
  CHECK(bus_factor(Collective::kScatter, 4) == doctest::Approx(0.75));
}

TEST_CASE("names of collectives are read back as they are written, and nothing else is") {
  for (int op = 0; op < 9; ++op)
    CHECK(parse_collective(name_of(static_cast<Collective>(op))) == static_cast<Collective>(op));
  CHECK(models::collective_names().size() == 9);
  CHECK_FALSE(parse_collective("gathers"));
}

}  // namespace algorithm_test

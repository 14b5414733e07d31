// The split of a long message over parallel ways, by hand.
#include "plugin/net/rdma/striping.h"

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include "plugin/base/prng.h"

namespace striping_test {

using namespace meshbed;
using namespace meshbed::net;

namespace {

using Shares = std::vector<std::uint64_t>;

Shares split(std::uint64_t size_bytes, const std::vector<PathLoad>& ways, std::uint64_t hysteresis_bytes = 0) {
  Shares shares(ways.size());
  split_message(size_bytes, ways, hysteresis_bytes, shares);
  return shares;
}

}  // namespace

TEST_CASE("striping: equal ways get equal shares, by rate where rates differ") {
  CHECK(split(1 << 20, {{100, 0}, {100, 0}}) == Shares{1 << 19, 1 << 19});
  CHECK(split(4096, {{100, 0}, {100, 0}, {200, 0}}) == Shares{1024, 1024, 2048});
  CHECK(split(777, {{100, 0}}) == Shares{777});
}

TEST_CASE("striping: who has bytes in flight gets so much less, or nothing") {
  CHECK(split(4096, {{100, 1024}, {100, 0}}) == Shares{1536, 2560});
  CHECK(split(4096, {{100, 8192}, {100, 0}}) == Shares{0, 4096});
  CHECK(split(4096, {{100, 8192 + 1024}, {100, 8192}}) == Shares{1536, 2560});  // only the difference counts
  CHECK(split(6144, {{100, 0}, {100, 1 << 20}, {200, 0}}) == Shares{2048, 0, 4096});
}

TEST_CASE("striping: what counts is when a way runs dry, not how many bytes it has") {
  CHECK(split(1100 * 128, {{100, 1000}, {1000, 10'000}}) == Shares{100 * 128, 1000 * 128});
  CHECK(split(1100 * 128, {{100, 1000}, {1000, 0}}, 1001) == Shares{100 * 128, 1000 * 128});
  CHECK(split(1100 * 128, {{100, 1100 * 128}, {1000, 0}}) == Shares{0, 1100 * 128});
}

TEST_CASE("striping: loads that differ by less than the hysteresis are equal") {
  CHECK(split(4096, {{100, 1024}, {100, 0}}, 1025) == Shares{2048, 2048});
  CHECK(split(4096, {{100, 1024}, {100, 0}}, 1024) == Shares{1536, 2560});
}

TEST_CASE("striping: every share begins at a line of 128 bytes, and nothing is lost") {
  Prng prng(7);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<PathLoad> ways(1 + prng.next() % 7);
    for (PathLoad& way : ways) {
      way.rate_mbps = prng.next() % 4 * 50'000;  // 0: a driver that does not know
      way.in_flight_bytes = prng.next() % 3 * (prng.next() % (1 << 22));
    }
    const std::uint64_t size = prng.next() % (std::uint64_t{1} << (1 + prng.next() % 31));
    const Shares shares = split(size, ways, prng.next() % (1 << 21));
    CHECK(std::accumulate(shares.begin(), shares.end(), std::uint64_t{0}) == size);
    std::uint64_t at = 0;
    for (const std::uint64_t share : shares) {
      if (share > 0) CHECK(at % kStripeAlignBytes == 0);
      at += share;
    }
  }
}

}  // namespace striping_test

#include "plugin/net/way_balance.h"

#include <doctest/doctest.h>

#include "plugin/base/units.h"

namespace way_balance_test {

using namespace meshbed;
using namespace meshbed::net;

namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;

/// Times that a connection with these loads, by the way that it is on and the number of the look, changes in a minute.
template <typename LoadsOf>
int changes_in_a_minute(std::uint64_t threshold_bytes, const LoadsOf& loads_of) {
  WayBalance balance(threshold_bytes);
  int changes = 0;
  std::int64_t now_ns = kSecondNs;
  for (int look = 0; now_ns < 61 * kSecondNs; ++look, now_ns += balance.pause_ns()) {
    if (!balance.weigh(loads_of(changes % 2 == 1, look), now_ns)) continue;
    ++changes;
    balance.changed(now_ns, static_cast<std::uint64_t>(look) * 0x9e3779b97f4a7c15U);
  }
  return changes;
}

}  // namespace

TEST_CASE("a way that is the lighter one by the threshold is no reason to change, by more it is, after eight looks") {
  for (const std::uint64_t more : {0, 1}) {
    WayBalance balance(kMiB);
    const WayBalance::Loads loads{.here_bytes = 3 * kMiB + more, .there_bytes = 2 * kMiB};
    for (int look = 1; look <= 100; ++look) {
      CHECK(balance.weigh(loads, look * WayBalance::kLeastPauseNs) ==
            (more > 0 && look >= WayBalance::kLooksThatAgree));
    }
  }
}

TEST_CASE("a heavier way is never gone to, however large the numbers") {
  WayBalance balance(0);
  for (int look = 1; look <= 100; ++look) {
    CHECK_FALSE(balance.weigh({.here_bytes = 0, .there_bytes = UINT64_MAX}, look * WayBalance::kLeastPauseNs));
  }
}

TEST_CASE("loads that are equal, and rise and fall in turns: no change in a minute") {
  CHECK(changes_in_a_minute(kMiB, [](bool, int look) {
          return look % 2 == 0 ? WayBalance::Loads{.here_bytes = 8 * kMiB, .there_bytes = 0}
                               : WayBalance::Loads{.here_bytes = 0, .there_bytes = 8 * kMiB};
        }) == 0);
}

TEST_CASE("a load that moves once: one change") {
  CHECK(changes_in_a_minute(kMiB, [](bool changed, int) {
          return WayBalance::Loads{.here_bytes = changed ? 0 : 8 * kMiB, .there_bytes = changed ? 8 * kMiB : 0};
        }) == 1);
}

TEST_CASE("a load that follows wherever it goes: each stay is twice as long as the one before, ten changes a minute") {
  const int changes =
      changes_in_a_minute(kMiB, [](bool, int) { return WayBalance::Loads{.here_bytes = 8 * kMiB, .there_bytes = 0}; });
  CHECK(changes >= 8);
  CHECK(changes <= 11);
}

TEST_CASE("a long calm ends the doubling: the next change is followed by a short stay") {
  WayBalance balance(0);
  const WayBalance::Loads loads{.here_bytes = kMiB, .there_bytes = 0};
  std::int64_t now_ns = kSecondNs;
  for (int change = 0; change < 5; ++change) balance.changed(now_ns += WayBalance::kLeastStayNs, 0);
  const auto next_change_ns = [&](std::int64_t from_ns) {
    std::int64_t at_ns = from_ns;
    while (!balance.weigh(loads, at_ns)) at_ns += WayBalance::kLeastPauseNs;
    return at_ns - from_ns;
  };
  CHECK(next_change_ns(now_ns) >= 16 * WayBalance::kLeastStayNs);
  now_ns += 3600 * kSecondNs;
  balance.changed(now_ns, 0);
  CHECK(next_change_ns(now_ns) < 2 * WayBalance::kLeastStayNs);
}

TEST_CASE("looks become rarer where there is no reason to change, and frequent again where there is") {
  WayBalance balance(kMiB);
  for (int look = 0; look < 10; ++look) balance.weigh({.here_bytes = 0, .there_bytes = 0}, kSecondNs);
  CHECK(balance.pause_ns() == WayBalance::kLongestPauseNs);
  balance.weigh({.here_bytes = 8 * kMiB, .there_bytes = 0}, kSecondNs);
  CHECK(balance.pause_ns() == WayBalance::kLeastPauseNs);
  balance.weigh_nothing();
  CHECK(balance.pause_ns() == WayBalance::kLongestPauseNs);
}

}  // namespace way_balance_test

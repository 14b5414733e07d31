// Strength: known cablings have known ones.
#include "models/strength.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <utility>

namespace strength_test {

namespace {

double strength_of(int nodes, const std::vector<std::pair<int, int>>& cables) {
  std::vector<int> rates(static_cast<std::size_t>(nodes * nodes));
  for (const auto& [a, b] : cables) {
    rates[static_cast<std::size_t>(a * nodes + b)] += 100;
    rates[static_cast<std::size_t>(b * nodes + a)] += 100;
  }
  return meshbed::models::strength(nodes, rates);
}

}  // namespace

TEST_CASE("strength: n/2 cables of a full mesh, n/(n-1) of a ring, one of a tree, two of two rails") {
  for (int nodes = 2; nodes <= 8; ++nodes) {
    std::vector<std::pair<int, int>> all, ring, line, star;
    for (int a = 0; a < nodes; ++a) {
      ring.emplace_back(a, (a + 1) % nodes);
      if (a > 0) line.emplace_back(a - 1, a);
      if (a > 0) star.emplace_back(0, a);
      for (int b = a + 1; b < nodes; ++b) all.emplace_back(a, b);
    }
    CHECK(strength_of(nodes, all) == doctest::Approx(50 * nodes));
    if (nodes > 2) CHECK(strength_of(nodes, ring) == doctest::Approx(100.0 * nodes / (nodes - 1)));
    CHECK(strength_of(nodes, line) == 100);
    CHECK(strength_of(nodes, star) == 100);
  }
  CHECK(strength_of(2, {{0, 1}, {0, 1}}) == 200);
  // A triangle on a tail: the tail's cable alone joins two groups.
  CHECK(strength_of(4, {{0, 1}, {1, 2}, {2, 0}, {2, 3}}) == 100);
  CHECK(strength_of(3, {{0, 1}}) == 0);
}

}  // namespace strength_test

// Cablings up to isomorphism, beside every graph on so few nodes compared by every renumbering.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "testbed/plan/cablings.h"

namespace plan_cablings_test {

using namespace meshbed::testbed::plan;

namespace {

using Cables = std::vector<std::pair<int, int>>;

/// The least list of cables over all renumberings: equal for isomorphic cablings alone.
Cables least_renumbered(const Cabling& cabling) {
  std::vector<int> numbers(static_cast<std::size_t>(cabling.nodes));
  std::iota(numbers.begin(), numbers.end(), 0);
  Cables least;
  do {
    Cables list;
    for (const auto& [one, other] : cabling.cables) {
      const int left = numbers[static_cast<std::size_t>(one)], right = numbers[static_cast<std::size_t>(other)];
      list.emplace_back(std::min(left, right), std::max(left, right));
    }
    std::sort(list.begin(), list.end());
    if (least.empty() || list < least) least = list;
  } while (std::next_permutation(numbers.begin(), numbers.end()));
  return least;
}

/// Every connected way to put 0 to `nics` cables between each two nodes.
std::set<Cables> every_class(int nodes, int nics) {
  std::vector<std::pair<int, int>> pairs;
  for (int one = 0; one < nodes; ++one) {
    for (int other = one + 1; other < nodes; ++other) pairs.emplace_back(one, other);
  }
  std::set<Cables> classes;
  std::vector<int> count(pairs.size(), 0);
  for (;;) {
    Cabling cabling{.nodes = nodes};
    for (std::size_t pair = 0; pair < pairs.size(); ++pair) {
      cabling.cables.insert(cabling.cables.end(), static_cast<std::size_t>(count[pair]), pairs[pair]);
    }
    bool fits = cabling.is_connected();
    for (int node = 0; node < nodes; ++node) fits = fits && cabling.nics_of(node) <= nics;
    if (fits) classes.insert(least_renumbered(cabling));
    std::size_t at = 0;
    while (at < count.size() && ++count[at] > nics) count[at++] = 0;
    if (at == count.size()) return classes;
  }
}

}  // namespace

TEST_CASE("each connected cabling of 2 to 5 nodes is there once up to isomorphism") {
  for (const auto& [nodes, nics] : {std::pair{2, 3}, {3, 2}, {3, 3}, {4, 2}, {4, 3}, {5, 2}}) {
    CAPTURE(nodes);
    CAPTURE(nics);
    const std::vector<Cabling> all = connected_cablings(nodes, nics, 0, 1000);
    std::set<Cables> found;
    for (const Cabling& cabling : all) found.insert(least_renumbered(cabling));
    CHECK(found.size() == all.size());
    CHECK(found == every_class(nodes, nics));
  }
}

TEST_CASE("cablings are named by their shape, and those without one by their cables") {
  std::vector<std::string> names;
  for (const Cabling& cabling : connected_cablings(4, 2, 2, 1000)) names.push_back(name_of(cabling));
  CHECK(names == std::vector<std::string>{"line", "ring", "switch", "switch + 0-1", "switch + 0-1 2-3", "2 switches"});
  CHECK(name_of({.nodes = 2, .cables = {{0, 1}, {0, 1}}}) == "pair x 2");
  CHECK(name_of({.nodes = 4, .cables = {{0, 1}, {0, 2}, {0, 3}}}) == "star");
  CHECK(name_of({.nodes = 4, .cables = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}}}) == "full mesh");
  CHECK(name_of({.nodes = 4, .cables = {{0, 1}, {0, 2}, {0, 3}, {1, 2}}}) == "0-1 0-2 0-3 1-2");
  std::set<std::string> all;
  const std::vector<Cabling> many = connected_cablings(5, 3, 1, 1000);
  for (const Cabling& cabling : many) all.insert(name_of(cabling));
  CHECK(all.size() == many.size());
}

TEST_CASE("distances: a line of four has 1.67 cables between two nodes, a ring 1.33, a switch 1") {
  CHECK(Cabling{.nodes = 4, .cables = {{0, 1}, {1, 2}, {2, 3}}}.mean_distance() == doctest::Approx(10.0 / 6));
  CHECK(Cabling{.nodes = 4, .cables = {{0, 1}, {0, 3}, {1, 2}, {2, 3}}}.mean_distance() == doctest::Approx(8.0 / 6));
  CHECK(Cabling{.nodes = 4, .cables = {}, .switches = 1}.mean_distance() == 1);
  CHECK(Cabling{.nodes = 4, .cables = {{0, 1}, {2, 3}}}.mean_distance() == 0);
}

TEST_CASE("more cablings than can be judged are refused") {
  CHECK_THROWS_WITH_AS(connected_cablings(8, 4, 0, 5000),
                       "more than 5000 cablings of 8 nodes; plan for fewer nodes or fewer NICs", std::runtime_error);
}

}  // namespace plan_cablings_test

#include "models/cut.h"

#include <doctest/doctest.h>

namespace cut_test {

using namespace meshbed::models;

TEST_CASE("a line's least cut is its narrowest cable, and its ends' blocks make the narrowest cut of blocks") {
  const std::vector<int> line{0, 5, 0, 5, 0, 3, 0, 3, 0};  // 0 -5- 1 -3- 2
  for (int root = 0; root < 3; ++root) CHECK(least_cut(3, line, root) == 3);
  CHECK(least_cut_per_block(3, line) == doctest::Approx(3.0 / 2));
}

TEST_CASE("where the root is counts: a part with it in needs nothing from outside, but every other part does") {
  const std::vector<int> rates{0, 4, 1, 4, 0, 1, 1, 1, 0};  // ranks 0 and 1 near each other, 2 far
  CHECK(least_cut(3, rates, 0) == 2);
  CHECK(least_cut(3, rates, 2) == 2);
  const std::vector<int> two{0, 7, 7, 0};
  CHECK(least_cut(2, two, 1) == 7);
  CHECK(least_cut_per_block(2, two) == 7);
}

}  // namespace cut_test

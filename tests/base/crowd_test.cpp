// Who goes where more wait than may.
#include "plugin/base/crowd.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/net/addresses.h"

namespace crowd_test {

using namespace meshbed;
using namespace meshbed::net;

namespace {

Waiting from(const char* address, bool spared = false) {
  return {.from = test::prefix(std::string(address) + "/32").address, .spared = spared};
}

}  // namespace

TEST_CASE("of the largest crowd the first one goes, also if others came before it") {
  const std::vector<Waiting> waiting{from("10.0.0.1"), from("10.0.0.2"), from("10.0.0.3"), from("10.0.0.2")};
  CHECK(select_victim(waiting) == 1U);
  CHECK(select_victim(std::span(waiting).first(3)) == 0U);  // of three crowds of one the one who has waited longest
  CHECK_FALSE(select_victim({}).has_value());
}

TEST_CASE("a crowd that is spared stays as long as there is one stranger, and goes by the same rule then") {
  std::vector<Waiting> waiting{from("10.0.0.1", true), from("10.0.0.1", true), from("10.0.0.2")};
  CHECK(select_victim(waiting) == 2U);
  waiting.back() = from("10.0.0.2", true);
  CHECK(select_victim(waiting) == 0U);
}

}  // namespace crowd_test

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "plugin/base/counted.h"
#include "plugin/base/log.h"
#include "plugin/base/prng.h"
#include "plugin/base/result.h"
#include "plugin/base/units.h"

namespace base_test {

using namespace meshbed;

TEST_CASE("4 KiB at 400 Gb/s take 81 920 ps") { CHECK(wire_time_ps(4 * kKiB, 400'000'000'000) == 81'920); }

TEST_CASE("one thing is one thing, and none are several") {
  CHECK(counted(0, "cable") == "0 cables");
  CHECK(counted(1, "cable") == "1 cable");
  CHECK(counted(2, "switch") == "2 switches");
  CHECK(counted(2, "path") == "2 paths");
}

TEST_CASE("wire time neither overflows nor loses picoseconds at a tebibyte") {
  CHECK(wire_time_ps(1024 * kGiB, 100'000'000'000) == static_cast<Picoseconds>(1024 * kGiB) * 80);
}

TEST_CASE("the same seed gives the same row of numbers, another seed another") {
  Prng a(42);
  Prng b(42);
  Prng c(43);
  bool differs = false;
  for (int index = 0; index < 1000; ++index) {
    const auto value = a.next();
    CHECK(value == b.next());
    differs = differs || value != c.next();
  }
  CHECK(differs);
}

TEST_CASE("below() stays below, and reaches every value") {
  Prng prng(7);
  std::set<std::uint64_t> seen;
  for (int index = 0; index < 1000; ++index) seen.insert(prng.below(10));
  CHECK(seen.size() == 10);
  CHECK(*seen.rbegin() == 9);
}

TEST_CASE("a Result holds its value or its error") {
  const Result<int> good = 3;
  const Result<int> bad = Error{.code = ErrorCode::kTimeout, .scope = Scope::kPort, .text = "late"};
  CHECK(good.has_value());
  CHECK(*good == 3);
  CHECK_FALSE(bad);
  CHECK(bad.error().scope == Scope::kPort);
  CHECK(bad.error().text == "late");
  CHECK(ok().has_value());
}

namespace {
std::string g_line;
}

TEST_CASE("a line above the level is dropped; others reach the sink whole") {
  set_log_sink([](LogLevel, const char*, int, const char* text) { g_line = text; });
  set_log_level(LogLevel::kWarn);
  MESHBED_INFO("quiet %d", 1);
  CHECK(g_line.empty());
  MESHBED_WARN("loud %d", 2);
  CHECK(g_line == "loud 2");
  set_log_sink(nullptr);
}

}  // namespace base_test

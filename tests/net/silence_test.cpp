#include "plugin/net/link/silence.h"

#include <doctest/doctest.h>

#include <vector>

namespace silence_test {

using meshbed::net::Silence;

TEST_CASE("a silence is asked about after 5, 10 and 20 s and then every 20 s, for hours, and anew after it has ended") {
  constexpr std::int64_t kSecondNs = 1'000'000'000;
  Silence silence;
  for (int time = 0; time < 2; ++time) {
    CHECK_FALSE(silence.has_begun());
    const std::int64_t begin_ns = 7 * kSecondNs;
    silence.begin(begin_ns, 42);
    CHECK(silence.has_begun());
    CHECK(silence.mark() == 42);
    CHECK(silence.since_ns() == begin_ns);
    std::vector<std::int64_t> asked_s;
    for (std::int64_t second = 1; second <= 7200; ++second) {
      if (silence.is_due(begin_ns + second * kSecondNs)) asked_s.push_back(second);
    }
    CHECK(std::vector<std::int64_t>(asked_s.begin(), asked_s.begin() + 6) ==
          std::vector<std::int64_t>{5, 10, 20, 40, 60, 80});
    CHECK(asked_s.back() == 7200);
    CHECK(asked_s.size() == 3 + 7200 / 20 - 1);
    silence.end();
  }
}

}  // namespace silence_test

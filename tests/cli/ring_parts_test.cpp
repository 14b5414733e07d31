// Where a token's time goes: the parts add up, and the order in which they count.
#include <doctest/doctest.h>

#include <cstddef>
#include <numeric>

#include "plugin/base/prng.h"
#include "testbed/workload/megakernel/parts.h"

namespace ring_parts_test {

using namespace meshbed;
using namespace meshbed::testbed;

namespace {

Picoseconds of(const RingPartTimes& times, RingPart part) { return times[static_cast<std::size_t>(part)]; }
Picoseconds sum(const RingPartTimes& times) { return std::accumulate(times.begin(), times.end(), Picoseconds{0}); }

}  // namespace

TEST_CASE("an instant counts for the first part that was under way, and for waiting where none was") {
  RingParts parts(2);
  parts.add(0, RingPart::kCompute, 100, 300);
  parts.posted(1, 0, 0, 200);
  parts.arrived(1, 0, 0, 500);  // 200 of its 300 ps beside no computation
  parts.add(0, RingPart::kQueue, 450, 600);
  parts.add(0, RingPart::kQueue, 550, 650);
  parts.add(0, RingPart::kLaunch, 90, 110);
  parts.add(1, RingPart::kCompute, 0, 1000);  // another rank's
  const RingPartTimes times = parts.take(0, 0, 1000);
  CHECK(of(times, RingPart::kLaunch) == 20);
  CHECK(of(times, RingPart::kCompute) == 190);
  CHECK(of(times, RingPart::kWire) == 200);
  CHECK(of(times, RingPart::kQueue) == 150);
  CHECK(of(times, RingPart::kWaiting) == 440);
  CHECK(sum(times) == 1000);
  // What was taken is forgotten, and what lies outside of a token is none of its time.
  CHECK(of(parts.take(0, 0, 1000), RingPart::kWaiting) == 1000);
  CHECK(of(parts.take(1, 900, 1200), RingPart::kCompute) == 100);
}

TEST_CASE("messages of a connection arrive in the order of their posts; one that was not posted adds nothing") {
  RingParts parts(2);
  parts.posted(1, 0, 0, 10);
  parts.posted(1, 0, 0, 20);
  parts.posted(1, 0, 1, 0);
  parts.arrived(1, 0, 0, 30);
  parts.arrived(1, 0, 0, 50);
  parts.arrived(1, 0, 0, 90);
  CHECK(of(parts.take(0, 0, 100), RingPart::kWire) == 40);
}

TEST_CASE("parts of random steps add up to the token") {
  Prng prng(27);
  for (int round = 0; round < 200; ++round) {
    RingParts parts(1);
    for (int step = 0; step < 20; ++step) {
      const auto begin = static_cast<Picoseconds>(prng.below(1000));
      parts.add(0, static_cast<RingPart>(prng.below(kRingParts - 1)), begin,
                begin + static_cast<Picoseconds>(prng.below(200)));
    }
    const auto begin = static_cast<Picoseconds>(prng.below(500));
    CHECK(sum(parts.take(0, begin, begin + 700)) == 700);
  }
}

}  // namespace ring_parts_test

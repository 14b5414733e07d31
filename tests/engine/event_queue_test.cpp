// The event queue against the plainest one: a set ordered by (time, host, sequence).
#include "sim/engine/event_queue.h"

#include <doctest/doctest.h>

#include <limits>
#include <random>
#include <set>
#include <tuple>

namespace event_queue_test {

using namespace meshbed;
using sim::Event;
using sim::EventQueue;

namespace {

void nothing(void*, std::uint64_t) {}

/// Pushes to and pops from both; `spread` is how many different times lie ahead.
void compare(std::uint64_t seed, int events, Picoseconds spread, int hosts) {
  std::mt19937_64 random(seed);
  EventQueue queue;
  std::set<std::tuple<Picoseconds, int, std::uint64_t>> plain;
  Picoseconds now = 0;
  std::uint64_t sequence = 0;
  for (int step = 0; step < 2 * events; ++step) {
    const bool push = plain.empty() || (random() % 2 == 0 && step < events);
    if (push) {
      const Picoseconds when = now + static_cast<Picoseconds>(random() % static_cast<std::uint64_t>(spread));
      const int host = static_cast<int>(random() % static_cast<std::uint64_t>(hosts));
      queue.push({when, host, nothing, nullptr, sequence});
      plain.emplace(when, host, sequence++);
    }
    REQUIRE(queue.next_ps() == std::get<0>(*plain.begin()));
    if (push && random() % 4 != 0) continue;
    const Event event = queue.pop();
    const bool right = std::tuple(event.when_ps, event.host, event.argument) == *plain.begin();
    REQUIRE_MESSAGE(right, "step ", step, ": ", event.when_ps, " ps, host ", event.host, ", event ", event.argument);
    plain.erase(plain.begin());
    now = event.when_ps;
    REQUIRE(queue.empty() == plain.empty());
  }
}

}  // namespace

TEST_CASE("order is by time, host and sequence: few times with many events each") { compare(1, 100'000, 8, 16); }

TEST_CASE("order is by time, host and sequence: more times than the hash has places for, most with one event") {
  compare(2, 100'000, 100'000, 16);
}

TEST_CASE("order is by time, host and sequence: times that are pushed to again after others took their place") {
  compare(3, 300'000, 3'000, 4);
}

TEST_CASE("the widest times and hosts") {
  EventQueue queue;
  const Picoseconds last = std::numeric_limits<Picoseconds>::max();
  queue.push({last, 1'048'575, nothing, nullptr, 2});
  queue.push({last, 0, nothing, nullptr, 1});
  queue.push({0, 1'048'575, nothing, nullptr, 0});
  for (std::uint64_t each = 0; each < 3; ++each) CHECK(queue.pop().argument == each);
  CHECK(queue.empty());
}

}  // namespace event_queue_test

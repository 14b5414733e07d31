// What verbs cost the CPU that calls them, in virtual time (sim/verbs/verbs_host.h, VerbsCost).
#include <doctest/doctest.h>

#include "models/link.h"
#include "tests/verbs/pair.h"

namespace cost_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

constexpr std::uint64_t kRate = 100'000'000'000;
constexpr Picoseconds kLatency = kPicosecondsPerMicrosecond;
constexpr std::uint64_t kBytes = 4096;

/// From before the first of `writes` posts, until the last completion is there.
Picoseconds time_of(int writes, const sim::VerbsCost& cost) {
  Picoseconds took = -1;
  PairOptions options{.cost = cost};
  const auto result = run_pair(options, [&](Side& side) {
    if (side.index != 0) return;
    const Picoseconds start = now();
    for (int write = 0; write < writes; ++write) CHECK(side.post_write(1, 0, kBytes) == 0);
    for (int write = 0; write < writes; ++write) CHECK(side.wait().status == IBV_WC_SUCCESS);
    report(std::to_string(now() - start));
  });
  took = std::stoll(result.value);
  return took;
}

}  // namespace

TEST_CASE("a post and a completion cost what they are said to cost, beside the wire; by default nothing") {
  const Picoseconds wire = wire_time_ps(models::wire_bytes(kBytes, 4096, models::kRethBytes), kRate) + 2 * kLatency;
  CHECK(time_of(1, {}) == wire);
  CHECK(time_of(1, {.post_send_ps = 250'000}) == wire + 250'000);
  CHECK(time_of(1, {.post_send_ps = 250'000, .completion_ps = 70'000}) == wire + 320'000);
  CHECK(time_of(1, {.post_recv_ps = 99'000}) == wire);  // nobody posts a receive after the start
}

TEST_CASE("posts that take longer than their messages set the pace; completions are taken while the wire works") {
  const Picoseconds wire = wire_time_ps(models::wire_bytes(kBytes, 4096, models::kRethBytes), kRate);
  const Picoseconds post = 10 * wire;
  CHECK(time_of(8, {.post_send_ps = post}) == 8 * post + wire + 2 * kLatency);
}

}  // namespace cost_test

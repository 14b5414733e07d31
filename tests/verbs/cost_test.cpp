// What verbs cost the CPU that calls them, in virtual time (sim/verbs/verbs_host.h, VerbsCost).
#include <doctest/doctest.h>

#include <sstream>

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

/// When the receiver of `messages`, posted at once, goes on with each; since both sides were ready.
std::vector<Picoseconds> received_at(int messages, Picoseconds hop_ps) {
  // A world of its own process: what it finds out comes back as text.
  const auto result = run_pair(
      {},
      [&](Side& side) {
        side.barrier();
        for (int message = 0; message < messages; ++message) CHECK(side.post_send(1, 0, kBytes) == 0);
        for (int message = 0; message < messages; ++message) CHECK(side.wait().status == IBV_WC_SUCCESS);
      },
      [&](Side& side) {
        sim::set_hop(side.index, hop_ps);
        for (int message = 0; message < messages; ++message) CHECK(side.post_recv(1, 0, kBytes) == 0);
        side.barrier();
        const Picoseconds start = now();
        std::string at;
        for (int message = 0; message < messages; ++message) {
          CHECK(side.wait().status == IBV_WC_SUCCESS);
          at += std::to_string(now() - start) + " ";
        }
        report(at);
      });
  std::vector<Picoseconds> at;
  std::istringstream text(result.value);
  for (Picoseconds each = 0; text >> each;) at.push_back(each);
  return at;
}

}  // namespace

TEST_CASE("a message goes on a hop after its own arrival: those of a stream overlap, and a sender has none") {
  const std::vector<Picoseconds> wire = received_at(4, 0);
  REQUIRE(wire.size() == 4);
  for (const Picoseconds hop_ps : {kLatency / 10, 20 * kLatency}) {
    const std::vector<Picoseconds> late = received_at(4, hop_ps);
    REQUIRE(late.size() == 4);
    for (std::size_t message = 0; message < 4; ++message) CHECK(late[message] == wire[message] + hop_ps);
  }
}

TEST_CASE("a completion that is a hop away is never shown once its queue pair is destroyed or reset") {
  for (const bool destroys : {true, false}) {
    CAPTURE(destroys);
    run_pair(
        {},
        [&](Side& side) {
          side.barrier();
          CHECK(side.post_send(1, 0, kBytes) == 0);
          CHECK(side.wait().status == IBV_WC_SUCCESS);  // it has arrived
          side.barrier();
        },
        [&](Side& side) {
          sim::set_hop(side.index, 20 * kLatency);
          CHECK(side.post_recv(1, 0, kBytes) == 0);
          CHECK(side.post_recv(2, 0, kBytes) == 0);
          side.barrier();
          side.barrier();
          if (destroys) {
            CHECK(ibv_destroy_qp(side.qp) == 0);
          } else {
            ibv_qp_attr attr{};
            attr.qp_state = IBV_QPS_RESET;
            CHECK(ibv_modify_qp(side.qp, &attr, IBV_QP_STATE) == 0);
          }
          CHECK(side.drain_after(100 * kLatency).empty());
        });
  }
}

TEST_CASE("a post and a completion cost what they are said to cost, beside the wire; by default nothing") {
  const Picoseconds wire = wire_time_ps(models::wire_bytes(kBytes, 4096, models::kRethBytes), kRate) + 2 * kLatency;
  CHECK(time_of(1, {}) == wire);
  CHECK(time_of(1, {.post_send_ps = 250'000}) == wire + 250'000);
  CHECK(time_of(1, {.post_send_ps = 250'000, .completion_ps = 70'000}) == wire + 320'000);
  CHECK(time_of(1, {.post_recv_ps = 99'000}) == wire);  // no receive is posted after the start
}

TEST_CASE("posts that take longer than their messages set the pace; completions are taken while the wire works") {
  const Picoseconds wire = wire_time_ps(models::wire_bytes(kBytes, 4096, models::kRethBytes), kRate);
  const Picoseconds post = 10 * wire;
  CHECK(time_of(8, {.post_send_ps = post}) == 8 * post + wire + 2 * kLatency);
}

}  // namespace cost_test

// Random traffic with random faults: whatever happens, requests complete once, in order, and are executed once.
#include <doctest/doctest.h>

#include <cstring>

#include "plugin/base/prng.h"
#include "sim/engine/network.h"
#include "tests/verbs/pair.h"

namespace storm_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

constexpr std::uint64_t kRequests = 1000;
constexpr std::size_t kCounterOffset = 0;     // of the peer's atomic counter
constexpr std::size_t kArena = 4096;          // writes and reads stay above
constexpr std::size_t kSendOffset = 600'000;  // the number of the send, first 8 bytes of its payload
constexpr std::size_t kReceiveOffset = 700'000;
constexpr std::uint32_t kReceiveBytes = 1024;

struct Tally {
  std::uint64_t sends = 0, adds = 0;
  bool done = false;
};

std::uint64_t& word_at(Side& side, std::size_t offset) {
  return *reinterpret_cast<std::uint64_t*>(side.memory.data() + offset);
}

int post_add(Side& side, std::uint64_t id) {
  ibv_sge sge = side.sge(64, 8);
  ibv_send_wr wr{};
  wr.wr_id = id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  wr.wr.atomic.remote_addr = reinterpret_cast<std::uint64_t>(side.peer().memory.data()) + kCounterOffset;
  wr.wr.atomic.rkey = side.peer().mr->rkey;
  wr.wr.atomic.compare_add = 1;
  return side.post(wr);
}

/// One random request; its errno.
int post_any(Side& side, Prng& random, std::uint64_t id, Tally& tally) {
  const auto length = static_cast<std::uint32_t>(random.below(random.below(4) == 0 ? 200'000 : 2'000));
  const unsigned flags = random.below(8) == 0 ? IBV_SEND_FENCE : 0;
  switch (random.below(5)) {
    case 0:
    case 1:
      return side.post_write(id, kArena, length, flags);
    case 2:
      return side.post_read(id, kArena, length, flags);
    case 3:
      ++tally.adds;
      return post_add(side, id);
    default: {
      // Inline, so that the number is the one of this moment.
      ibv_sge sge = side.sge(kSendOffset, 8);
      word_at(side, kSendOffset) = tally.sends++;
      ibv_send_wr wr = side.write_wr(id, &sge);
      wr.opcode = IBV_WR_SEND;
      wr.send_flags = flags | IBV_SEND_INLINE;
      return side.post(wr);
    }
  }
}

/// Works until both sides are done: the peer needs receives for longer than this side may have requests.
void storm(Side& side, std::uint64_t seed, Tally& tally, const Tally& peer) {
  Prng random(mix64(seed) + static_cast<std::uint64_t>(side.index));
  std::uint64_t posted = 0, completed = 0, received = 0, receives = 0;
  const Picoseconds deadline = now() + 10 * kPicosecondsPerSecond;
  while ((!tally.done || !peer.done) && now() < deadline) {
    if (random.below(8) == 0 && receives < received + 16) {
      CHECK(side.post_recv((1ULL << 32U) + receives++, kReceiveOffset, kReceiveBytes) == 0);
    }
    if (posted < kRequests && posted - completed < 32) {
      CHECK(post_any(side, random, posted, tally) == 0);
      ++posted;
    }
    if (random.below(4) == 0) sleep(static_cast<Picoseconds>(random.below(50)) * kPicosecondsPerMicrosecond);
    ibv_wc wc{};
    while (ibv_poll_cq(side.cq, 1, &wc) == 1) {
      CHECK(wc.status == IBV_WC_SUCCESS);
      if (wc.wr_id >> 32U != 0) {
        CHECK((wc.wr_id & 0xffffffffU) == received);
        ++received;
      } else {
        CHECK(wc.wr_id == completed);
        tally.done = ++completed == kRequests;
      }
    }
  }
  CHECK(completed == kRequests);
}

/// Pulls the cable now and then while the two sides work: down for a ninth of the time, so that eight tries in a row
/// (retry_cnt 7) are lost once in tens of millions.
void flap(const bool& finished, std::uint64_t seed) {
  Prng random(seed);
  auto& world = sim::World::get();
  while (!finished) {
    world.sleep(static_cast<Picoseconds>(random.below(1200)) * kPicosecondsPerMicrosecond);
    const models::PortRef port{static_cast<int>(random.below(2)), 0};
    world.network().set_port_up(port, false);
    sim::port_changed(port);
    world.sleep(static_cast<Picoseconds>(random.below(150)) * kPicosecondsPerMicrosecond);
    world.network().set_port_up(port, true);
    sim::port_changed(port);
  }
}

}  // namespace

// InfiniBand Architecture, volume 1, 9.7: reliable service; 9.5: transaction ordering.
TEST_CASE("under random traffic and a flapping cable every request completes once, in order, and is executed once") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    Tally tallies[2];
    bool finished = false;
    const auto configure = [](Setup& setup, int) {
      setup.timeout = 8;  // 1.05 ms
      setup.min_rnr_timer = 5;
      setup.max_rd_atomic = 4;
      setup.max_dest_rd_atomic = 4;
      setup.cqe = 1024;
      setup.depth = 128;
    };
    run_pair({.configure = configure}, [&](Side& side) {
      word_at(side, kCounterOffset) = 0;
      side.barrier();
      sim::Thread* flapper = nullptr;
      if (side.index == 0) {
        flapper = &sim::World::get().spawn(*side.process, "flapper", [&finished, seed] { flap(finished, seed); });
      }
      storm(side, seed, tallies[side.index], tallies[1 - side.index]);
      side.barrier();
      finished = true;
      if (flapper != nullptr) flapper->join();
      sleep(kPicosecondsPerSecond);
      CHECK(word_at(side, kCounterOffset) == tallies[1 - side.index].adds);
      if (tallies[1 - side.index].sends > 0) {
        CHECK(word_at(side, kReceiveOffset) == tallies[1 - side.index].sends - 1);
      }
      side.barrier();
      CHECK(sim::verbs_counters().in_flight == 0);
      CHECK(sim::verbs_counters().delivered == 2 * kRequests);
      if (side.index == 0) report(std::to_string(sim::verbs_counters().retransmissions) + "\n");
    });
  }
}

// InfiniBand Architecture, volume 1, 10.3.1.1 (Reset) and 10.3.1.7 (Error); ibv_create_qp(3): ibv_destroy_qp.
TEST_CASE("queue pairs that are destroyed, reset or failed at any moment leave nothing behind") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    run_pair({.configure = [](Setup& setup, int) { setup.timeout = 6, setup.retry_cnt = 1, setup.cqe = 1024; }},
             [seed](Side& side) {
               Prng random(mix64(seed) + static_cast<std::uint64_t>(side.index));
               Tally tally;
               for (std::uint64_t id = 0; id < 20; ++id) {
                 CHECK(side.post_recv(id, kReceiveOffset, kReceiveBytes) == 0);
                 CHECK(post_any(side, random, id, tally) == 0);
               }
               sleep(static_cast<Picoseconds>(random.below(40)) * kPicosecondsPerMicrosecond);
               ibv_qp_attr attr{};
               switch (random.below(4)) {
                 case 0:
                   CHECK(ibv_destroy_qp(side.qp) == 0);
                   break;
                 case 1:
                   attr.qp_state = IBV_QPS_RESET;
                   CHECK(ibv_modify_qp(side.qp, &attr, IBV_QP_STATE) == 0);
                   break;
                 case 2:
                   attr.qp_state = IBV_QPS_ERR;
                   CHECK(ibv_modify_qp(side.qp, &attr, IBV_QP_STATE) == 0);
                   break;
                 default:
                   CHECK(ibv_dereg_mr(side.mr) == 0);
               }
               sleep(kPicosecondsPerSecond);
               side.barrier();
               CHECK(sim::verbs_counters().in_flight == 0);
             });
  }
}

}  // namespace storm_test

// What a switch with a smaller MTU than its ports does to a connection: it drops larger packets without a word, so that
// short messages pass and long ones end as InfiniBand Architecture, volume 1, 9.9.2 says of one without a reply.
#include <doctest/doctest.h>

#include "tests/verbs/pair.h"

namespace switch_mtu_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

constexpr std::uint32_t kSwitchMtu = 1500;
constexpr std::uint32_t kHeaders = 20 + 8 + 12 + 4;  // IPv4, UDP, transport header, invariant CRC
constexpr std::uint32_t kReth = 16, kAeth = 4;
constexpr std::uint8_t kRetries = 2;
constexpr Picoseconds kTimeout = Picoseconds{4'096'000} << 10U;

PairOptions through_switch(std::uint32_t mtu_bytes, ibv_mtu path_mtu = IBV_MTU_4096) {
  PairOptions options;
  options.cluster = switch_cluster(2);
  options.cluster.switches[0].mtu_bytes = mtu_bytes;
  options.configure = [path_mtu](Setup& setup, int) {
    setup.path_mtu = path_mtu;
    setup.timeout = 10;
    setup.retry_cnt = kRetries;
  };
  return options;
}

/// How a write of side 0 ends; `took`: after how long.
ibv_wc_status written(Side& side, std::uint32_t length, Picoseconds& took) {
  const Picoseconds start = now();
  CHECK(side.post_write(1, 0, length) == 0);
  const ibv_wc_status status = side.wait().status;
  took = now() - start;
  return status;
}

}  // namespace

TEST_CASE("a write whose one packet fits passes a small switch; one byte more is dropped until no retry is left") {
  run_pair(through_switch(kSwitchMtu), [](Side& side) {
    if (side.index != 0) return;
    Picoseconds took = 0;
    CHECK(written(side, kSwitchMtu - kHeaders - kReth, took) == IBV_WC_SUCCESS);
    CHECK(took < kTimeout);
    CHECK(side.peer().memory[0] == 'A');
    CHECK(sim::verbs_counters().retransmissions == 0);
    side.memory[0] = 'X';
    CHECK(written(side, kSwitchMtu - kHeaders - kReth + 1, took) == IBV_WC_RETRY_EXC_ERR);
    CHECK(took > (kRetries + 1) * kTimeout);
    CHECK(side.peer().memory[0] == 'A');
    CHECK(sim::verbs_counters().retransmissions == kRetries);
    CHECK(side.state() == IBV_QPS_ERR);
  });
}

TEST_CASE("with a path MTU that the switch forwards, messages of any length pass it") {
  run_pair(through_switch(kSwitchMtu, IBV_MTU_1024), [](Side& side) {
    if (side.index != 0) return;
    Picoseconds took = 0;
    CHECK(written(side, 1U << 19U, took) == IBV_WC_SUCCESS);
    CHECK(sim::verbs_counters().retransmissions == 0);
  });
  // To the byte: the first packet of a write is the largest there.
  run_pair(through_switch(4096 + kHeaders + kReth), [](Side& side) {
    if (side.index != 0) return;
    Picoseconds took = 0;
    CHECK(written(side, 3 * 4096, took) == IBV_WC_SUCCESS);
  });
}

// InfiniBand Architecture, volume 1, 9.7.5.2.8: a NAK for what comes out of sequence, once.
TEST_CASE("a short last packet passes and shows the gap: the first retry comes at once, the others by the timer") {
  run_pair(through_switch(kSwitchMtu), [](Side& side) {
    if (side.index != 0) return;
    Picoseconds took = 0;
    CHECK(written(side, 2 * 4096 + 8, took) == IBV_WC_RETRY_EXC_ERR);
    CHECK(took > kRetries * kTimeout);
    CHECK(took < (kRetries + 1) * kTimeout);
    CHECK(sim::verbs_counters().retransmissions == kRetries);
  });
}

TEST_CASE("what gets through before the packet that is dropped counts as progress once, and no more") {
  // The last of two packets has an immediate value of four bytes, for two of which there is room.
  run_pair(through_switch(4096 + kHeaders + 2), [](Side& side) {
    if (side.index == 1) {
      CHECK(side.post_recv(7, 0, 2 * 4096) == 0);
      side.barrier();
      return;
    }
    side.barrier();
    ibv_sge sge = side.sge(0, 2 * 4096);
    ibv_send_wr wr = side.write_wr(1, &sge);
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    CHECK(side.post(wr) == 0);
    CHECK(side.wait().status == IBV_WC_RETRY_EXC_ERR);
    CHECK(side.peer().memory[0] == 'B');
  });
}

TEST_CASE("a read's request is small, and its response is not: RETRY_EXC_ERR where a packet of it is dropped") {
  run_pair(through_switch(kSwitchMtu), [](Side& side) {
    if (side.index != 0) return;
    CHECK(side.post_read(1, 0, kSwitchMtu - kHeaders - kAeth) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    CHECK(side.memory[0] == 'B');
    CHECK(side.post_read(2, 0, kSwitchMtu - kHeaders - kAeth + 1) == 0);
    CHECK(side.wait().status == IBV_WC_RETRY_EXC_ERR);
    CHECK(sim::verbs_counters().retransmissions == kRetries);
  });
}

TEST_CASE("one small port of a switch is enough, whichever end it is at") {
  for (const std::size_t small : {0U, 1U}) {
    PairOptions options = through_switch(0);
    options.cluster.nodes[small].nics[0].switch_mtu_bytes = kSwitchMtu;
    run_pair(options, [](Side& side) {
      if (side.index != 0) return;
      Picoseconds took = 0;
      CHECK(written(side, 64, took) == IBV_WC_SUCCESS);
      CHECK(written(side, 4096, took) == IBV_WC_RETRY_EXC_ERR);
    });
  }
}

TEST_CASE("the smaller of two switches' MTUs bounds what crosses the router between them") {
  for (const std::size_t small : {0U, 1U}) {
    PairOptions options = through_switch(0);
    options.cluster = routed_cluster(2);
    options.cluster.switches[small].mtu_bytes = kSwitchMtu;
    options.cluster.switches[1 - small].mtu_bytes = 9000;
    run_pair(options, [](Side& side) {
      if (side.index != 0) return;
      Picoseconds took = 0;
      CHECK(written(side, kSwitchMtu - kHeaders - kReth, took) == IBV_WC_SUCCESS);
      CHECK(written(side, kSwitchMtu - kHeaders - kReth + 1, took) == IBV_WC_RETRY_EXC_ERR);
    });
  }
}

}  // namespace switch_mtu_test

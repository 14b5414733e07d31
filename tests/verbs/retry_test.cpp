// Retries and their exact times: ibv_modify_qp(3) (timeout, retry_cnt, rnr_retry, min_rnr_timer); InfiniBand
// Architecture, volume 1, 9.7.5.2.8 (RNR NAK, table 45) and 9.7.6.1.3 (transport timer, 4.096 us * 2^timeout).
#include <doctest/doctest.h>

#include "sim/engine/network.h"
#include "tests/verbs/pair.h"

namespace retry_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

constexpr std::uint64_t kRate = 100'000'000'000;
constexpr Picoseconds kLatency = kPicosecondsPerMicrosecond;  // of ring_cluster's cables
constexpr Picoseconds kTimeoutUnit = 4'096'000;

constexpr Picoseconds write_time(std::uint64_t bytes) { return wire_time_ps(bytes + 82 + 16, kRate); }  // one packet
constexpr Picoseconds send_time(std::uint64_t bytes) { return wire_time_ps(bytes + 82, kRate); }

void set_link(bool up) {
  sim::World::get().network().set_port_up({1, 0}, up);
  sim::port_changed({1, 0});
}

PairOptions silent_peer(std::uint8_t timeout, std::uint8_t retry_cnt) {
  return {.configure = [=](Setup& setup, int index) {
    setup.timeout = timeout;
    setup.retry_cnt = retry_cnt;
    if (index == 1) setup.until = IBV_QPS_INIT;  // drops whatever comes
  }};
}

}  // namespace

// InfiniBand Architecture, volume 1, 9.7.6.1.3: transport timer; ibv_modify_qp(3): timeout, retry_cnt.
TEST_CASE("no reply: RETRY_EXC_ERR after retry_cnt + 1 tries of 4.096 us * 2^timeout each, the rest flushed") {
  for (const auto& [timeout, retry_cnt] : {std::pair{14, 7}, {14, 1}, {10, 3}, {1, 0}, {20, 2}}) {
    CAPTURE(timeout);
    run_pair(silent_peer(static_cast<std::uint8_t>(timeout), static_cast<std::uint8_t>(retry_cnt)),
             [timeout = timeout, retry_cnt = retry_cnt](Side& side) {
               if (side.index != 0) return;
               const Picoseconds start = now();
               CHECK(side.post_write(1, 0, 64) == 0);
               const ibv_wc wc = side.wait();
               CHECK(wc.status == IBV_WC_RETRY_EXC_ERR);
               CHECK(now() - start == (retry_cnt + 1) * (write_time(64) + (kTimeoutUnit << timeout)));
               CHECK(sim::verbs_counters().retransmissions == static_cast<std::uint64_t>(retry_cnt));
             });
  }
}

// InfiniBand Architecture, volume 1, 9.9.2 (requester errors) and 10.3.1.7 (Error state: the rest is flushed).
TEST_CASE("the oldest request gets RETRY_EXC_ERR, those behind it are flushed in order") {
  run_pair(silent_peer(8, 2), [](Side& side) {
    if (side.index != 0) return;
    for (std::uint64_t id = 1; id <= 3; ++id) CHECK(side.post_write(id, 0, 64) == 0);
    for (std::uint64_t id = 1; id <= 3; ++id) {
      const ibv_wc wc = side.wait();
      CHECK(wc.wr_id == id);
      CHECK(wc.status == (id == 1 ? IBV_WC_RETRY_EXC_ERR : IBV_WC_WR_FLUSH_ERR));
    }
    CHECK(side.state() == IBV_QPS_ERR);
  });
}

// Linux rxe_qp_from_attr and rxe_completer: with timeout 0 no retransmission timer is set.
TEST_CASE("timeout 0 waits for ever") {
  run_pair(silent_peer(0, 1), [](Side& side) {
    if (side.index != 0) return;
    CHECK(side.post_write(1, 0, 64) == 0);
    CHECK(side.drain_after(500 * kPicosecondsPerSecond).empty());
    CHECK(sim::verbs_counters().in_flight == 1);
  });
}

// InfiniBand Architecture, volume 1, 9.7.6.1.3: transport timer; a response restarts it (sim/verbs/retry.cpp).
TEST_CASE("a long message is timed from its last bit: no retry while it is still on the wire") {
  const auto short_timeout = [](Setup& setup, int) {
    setup.timeout = 1;  // 8.2 us; 1 MiB takes 85 us
    setup.retry_cnt = 0;
  };
  run_pair({.configure = short_timeout}, [](Side& side) {
    if (side.index != 0) return;
    CHECK(side.post_write(1, 0, 1U << 20U) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    CHECK(side.post_read(2, 0, 1U << 20U) == 0);  // its response likewise
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    CHECK(sim::verbs_counters().retransmissions == 0);
  });
}

// Linux rxe's hdr_check and check_addr: packets of an unknown queue pair or sender are dropped without an answer.
TEST_CASE("a destination queue pair that does not exist, or is another's peer, never answers") {
  for (const int offset : {1000, 0}) {  // 0: side 0's own number
    run_pair({.configure =
                  [](Setup& setup, int index) {
                    setup.timeout = 8;
                    setup.retry_cnt = 1;
                    if (index == 0) setup.until = IBV_QPS_INIT;
                  }},
             [offset](Side& side) {
               if (side.index != 0) return;
               side.setup.dest_qp_num = side.qp->qp_num + static_cast<std::uint32_t>(offset);
               CHECK(side.to_rtr() == 0);
               CHECK(side.to_rts() == 0);
               CHECK(side.post_write(1, 0, 64) == 0);
               CHECK(side.wait().status == IBV_WC_RETRY_EXC_ERR);
             });
  }
}

// InfiniBand Architecture, 9.7.2: the requester starts with sq_psn, the responder expects rq_psn.
TEST_CASE("a wrong rq_psn, ahead or behind: RETRY_EXC_ERR, and nothing is executed") {
  for (const std::uint32_t rq_psn : {0x123456U + 1000, 0x123456U - 1000}) {
    run_pair({.configure =
                  [rq_psn](Setup& setup, int index) {
                    setup.timeout = 8;
                    setup.retry_cnt = 2;
                    if (index == 1) setup.rq_psn = rq_psn;
                  }},
             [](Side& side) {
               if (side.index != 0) return;
               const Picoseconds start = now();
               CHECK(side.post_write(1, 0, 64) == 0);
               CHECK(side.wait().status == IBV_WC_RETRY_EXC_ERR);
               CHECK(now() - start == 3 * (write_time(64) + (kTimeoutUnit << 8)));
               CHECK(side.peer().memory[0] == 'B');
             });
  }
}

// InfiniBand Architecture, volume 1, 9.7.1: packet sequence numbers count modulo 2^24.
TEST_CASE("sequence numbers wrap at 24 bits") {
  run_pair({.configure = [](Setup& setup, int) { setup.sq_psn = 0xfffffe; }}, [](Side& side) {
    if (side.index != 0) return;
    CHECK(side.post_write(1, 0, 1U << 20U) == 0);  // 256 packets
    CHECK(side.post_write(2, 0, 64) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    CHECK(ibv_query_qp(side.qp, &attr, IBV_QP_SQ_PSN, &init) == 0);
    CHECK(attr.sq_psn == 0xfffffe + 257 - 0x1000000);
  });
}

// InfiniBand Architecture, volume 1, 9.7.5.2.8: RNR NAK and table 45; ibv_modify_qp(3): rnr_retry, min_rnr_timer.
TEST_CASE("no posted receive: RNR_RETRY_EXC_ERR after rnr_retry tries more, each after the responder's timer") {
  // Code 12 is 0.64 ms, 1 is 0.01 ms, 0 is 655.36 ms.
  for (const auto& [code, timer_us] : {std::pair{12, 640}, {1, 10}, {0, 655'360}, {31, 491'520}}) {
    for (const int retries : {0, 3}) {
      CAPTURE(code);
      CAPTURE(retries);
      run_pair({.configure =
                    [code = code, retries](Setup& setup, int) {
                      setup.min_rnr_timer = static_cast<std::uint8_t>(code);
                      setup.rnr_retry = static_cast<std::uint8_t>(retries);
                    }},
               [timer_us = timer_us, retries](Side& side) {
                 if (side.index != 0) return;
                 const Picoseconds start = now();
                 CHECK(side.post_send(1, 0, 64) == 0);
                 CHECK(side.post_send(2, 0, 64) == 0);
                 CHECK(side.wait().status == IBV_WC_RNR_RETRY_EXC_ERR);
                 CHECK(now() - start == (retries + 1) * (send_time(64) + 2 * kLatency) +
                                            retries * timer_us * kPicosecondsPerMicrosecond);
                 CHECK(side.wait().status == IBV_WC_WR_FLUSH_ERR);
                 CHECK(sim::verbs_counters().rnr_naks == static_cast<std::uint64_t>(retries) + 1);
               });
    }
  }
}

// Linux rxe's rxe_completer, COMPST_RNR_RETRY: an rnr_retry of 7 is not counted down.
TEST_CASE("rnr_retry 7 waits for a receive as long as it takes; order is kept") {
  run_pair([](Side& side) {
    if (side.index == 1) {
      sleep(20 * kPicosecondsPerMillisecond);
      for (std::uint64_t id = 1; id <= 3; ++id) CHECK(side.post_recv(id, id * 64, 64) == 0);
      for (std::uint64_t id = 1; id <= 3; ++id) {
        CHECK(side.wait().wr_id == id);
        CHECK(side.memory[id * 64] == static_cast<char>('0' + id));
      }
      return;
    }
    for (std::uint64_t id = 1; id <= 3; ++id) {
      side.memory[id * 64] = static_cast<char>('0' + id);
      CHECK(side.post_send(id, id * 64, 64) == 0);
    }
    for (std::uint64_t id = 1; id <= 3; ++id) {
      const ibv_wc wc = side.wait();
      CHECK(wc.wr_id == id);
      CHECK(wc.status == IBV_WC_SUCCESS);
    }
    CHECK(sim::verbs_counters().rnr_naks > 7);
    CHECK(sim::verbs_counters().delivered == 3);
  });
}

// InfiniBand Architecture, volume 1, 9.7.6.1.3: what is not acknowledged in time is sent again; 9.5: in order.
TEST_CASE("a link that goes down and comes back: sent again, executed once, in order") {
  run_pair([](Side& side) {
    if (side.index != 0) return;
    for (std::uint64_t id = 1; id <= 4; ++id) {
      side.memory[id * 4096] = static_cast<char>('0' + id);
      CHECK(side.post_write(id, id * 4096, 4096) == 0);
    }
    sleep(write_time(4096) + 2 * kLatency);  // one is done, the others are on the way
    set_link(false);
    sleep(5 * kPicosecondsPerMillisecond);
    set_link(true);
    for (std::uint64_t id = 1; id <= 4; ++id) {
      const ibv_wc wc = side.wait();
      CHECK(wc.wr_id == id);
      CHECK(wc.status == IBV_WC_SUCCESS);
      CHECK(side.peer().memory[id * 4096] == static_cast<char>('0' + id));
    }
    CHECK(sim::verbs_counters().retransmissions > 0);
    CHECK(sim::verbs_counters().delivered == 4);
  });
}

// Linux rxe's duplicate_request: "SEND. Ack again and cleanup. C9-105."
TEST_CASE("a lost acknowledgement: the duplicate is acknowledged again and not executed again") {
  run_pair([](Side& side) {
    if (side.index == 1) {
      CHECK(side.post_recv(1, 0, 64) == 0);
      CHECK(side.post_recv(2, 0, 64) == 0);
      side.barrier();
      CHECK(side.wait().wr_id == 1);
      set_link(false);  // the acknowledgement is on its way
      sleep(kPicosecondsPerMicrosecond);
      set_link(true);
      CHECK(side.drain_after(kPicosecondsPerSecond).empty());
      return;
    }
    side.barrier();
    CHECK(side.post_send(1, 0, 64) == 0);
    const Picoseconds start = now();
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    CHECK(now() - start == 2 * send_time(64) + (kTimeoutUnit << 14) + 2 * kLatency);
    CHECK(sim::verbs_counters().delivered == 1);
  });
}

// Linux rxe's duplicate_request: an atomic is answered from the kept result (find_resource, replay).
TEST_CASE("an atomic whose answer was lost is answered again and not applied again") {
  run_pair([](Side& side) {
    if (side.index == 1) {
      side.barrier();
      auto& word = *reinterpret_cast<volatile std::uint64_t*>(side.memory.data());
      while (word != 5) sleep(kPicosecondsPerNanosecond);
      set_link(false);
      sleep(kPicosecondsPerNanosecond);
      set_link(true);
      side.barrier();
      CHECK(word == 5);
      return;
    }
    *reinterpret_cast<std::uint64_t*>(side.peer().memory.data()) = 4;
    side.barrier();
    ibv_sge sge = side.sge(8, 8);
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr.wr.atomic.remote_addr = reinterpret_cast<std::uint64_t>(side.peer().memory.data());
    wr.wr.atomic.rkey = side.peer().mr->rkey;
    wr.wr.atomic.compare_add = 1;
    CHECK(side.post(wr) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    CHECK(*reinterpret_cast<std::uint64_t*>(side.memory.data() + 8) == 4);
    CHECK(sim::verbs_counters().retransmissions == 1);
    side.barrier();
  });
}

// Linux rxe's duplicate_request: "Replay the RDMA read reply."
TEST_CASE("a read whose response was lost is read again") {
  run_pair([](Side& side) {
    if (side.index != 0) return;
    CHECK(side.post_read(1, 0, 1U << 20U) == 0);
    sleep(50 * kPicosecondsPerMicrosecond);  // in the middle of the response
    set_link(false);
    set_link(true);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    CHECK(side.memory[(1U << 20U) - 1] == 'B');
    CHECK(sim::verbs_counters().retransmissions == 1);
  });
}

}  // namespace retry_test

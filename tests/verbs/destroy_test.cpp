// Objects in the wrong order, and in the middle of things: ibv_alloc_pd(3), ibv_create_cq(3),
// ibv_create_comp_channel(3), ibv_create_qp(3), ibv_open_device(3).
#include <doctest/doctest.h>

#include "tests/verbs/pair.h"

namespace destroy_test {

using namespace meshbed;
using namespace meshbed::test;

// ibv_alloc_pd(3), ibv_create_cq(3), ibv_create_comp_channel(3), notes: destroying what is still in use fails.
TEST_CASE("what others still use cannot be destroyed: EBUSY, and it works on") {
  run_pair({.configure = [](Setup& setup, int) { setup.channel = true; }}, [](Side& side) {
    CHECK(ibv_dealloc_pd(side.pd) == EBUSY);  // a memory region and a queue pair
    CHECK(ibv_destroy_cq(side.cq) == EBUSY);
    CHECK(ibv_destroy_comp_channel(side.channel) == EBUSY);
    side.barrier();
    CHECK(side.post_write(1, 0, 8) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    side.barrier();
    CHECK(ibv_destroy_qp(side.qp) == 0);
    CHECK(ibv_dealloc_pd(side.pd) == EBUSY);
    CHECK(ibv_dereg_mr(side.mr) == 0);
    CHECK(ibv_dealloc_pd(side.pd) == 0);
    CHECK(ibv_destroy_cq(side.cq) == 0);
    CHECK(ibv_destroy_comp_channel(side.channel) == 0);
    CHECK(ibv_close_device(side.context) == 0);
  });
}

// ibv_create_qp(3): ibv_destroy_qp; packets for a queue pair that is gone are dropped (Linux rxe's hdr_check).
TEST_CASE("a queue pair that is destroyed with requests in flight: none is delivered later, the peer notices nothing") {
  run_pair([](Side& side) {
    if (side.index != 0) return;
    for (std::uint64_t id = 1; id <= 8; ++id) CHECK(side.post_write(id, 0, 1U << 17U) == 0);
    CHECK(side.post_read(9, 0, 1U << 17U) == 0);
    sleep(15 * kPicosecondsPerMicrosecond);  // the first write is there, the second on the wire
    const std::uint64_t delivered = sim::verbs_counters().delivered;
    CHECK(ibv_destroy_qp(side.qp) == 0);
    sleep(kPicosecondsPerSecond);
    CHECK(sim::verbs_counters().delivered == delivered);
    CHECK(sim::verbs_counters().in_flight == 0);
  });
}

// Linux rxe's hdr_check drops packets that no queue pair matches; InfiniBand Architecture, 9.7.6.1.3: timeout.
TEST_CASE("the responder's queue pair is destroyed: the requester retries, then RETRY_EXC_ERR") {
  run_pair({.configure = [](Setup& setup, int) { setup.timeout = 10, setup.retry_cnt = 2; }}, [](Side& side) {
    if (side.index == 1) {
      side.barrier();
      sleep(20 * kPicosecondsPerMicrosecond);
      CHECK(ibv_destroy_qp(side.qp) == 0);
      return;
    }
    side.barrier();
    CHECK(side.post_read(1, 0, 1U << 20U) == 0);  // 85 us: destroyed in the middle of its response
    CHECK(side.wait().status == IBV_WC_RETRY_EXC_ERR);
  });
}

// ibv_open_device(3) leaves objects to the caller; Linux destroys them with the file (uverbs_destroy_ufile_hw).
TEST_CASE("closing a device destroys all that is left on it, and what was in flight goes nowhere") {
  run_pair({.configure = [](Setup& setup, int) { setup.timeout = 8, setup.retry_cnt = 1; }}, [](Side& side) {
    if (side.index == 1) {
      side.barrier();
      CHECK(ibv_close_device(side.context) == 0);
      return;
    }
    side.barrier();
    CHECK(side.post_write(1, 0, 1U << 20U) == 0);
    CHECK(side.wait().status == IBV_WC_RETRY_EXC_ERR);
    CHECK(side.peer().memory[0] == 'B');
  });
}

// Linux rxe's lookup_mr refuses a key whose slot is free, or whose low 8 bits, drawn at each registration, differ.
TEST_CASE("keys of regions that are gone never work again, although slots are used again") {
  run_pair([](Side& side) {
    if (side.index != 0) return;
    std::vector<std::uint32_t> keys;
    char bytes[64];
    for (int round = 0; round < 100; ++round) {
      ibv_mr* mr = ibv_reg_mr(side.pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);
      REQUIRE(mr != nullptr);
      for (const std::uint32_t key : keys) CHECK(key != mr->lkey);
      keys.push_back(mr->lkey);
      CHECK(ibv_dereg_mr(mr) == 0);
    }
    ibv_sge target = side.sge(0, 8);
    ibv_send_wr wr = side.write_wr(1, &target);
    ibv_sge sge{reinterpret_cast<std::uint64_t>(bytes), 8, keys.back()};
    wr.sg_list = &sge;
    CHECK(side.post(wr) == 0);
    CHECK(side.wait().status == IBV_WC_LOC_PROT_ERR);
  });
}

// Linux: a handle means an object of the caller's own open file (rdma_lookup_get_uobject in ib_core's rdma_core.c).
TEST_CASE("a process cannot use another's objects") {
  run_pair([](Side& side) {
    if (side.index != 0) return;
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RESET;
    CHECK(ibv_modify_qp(side.peer().qp, &attr, IBV_QP_STATE) == EINVAL);
    CHECK(ibv_destroy_qp(side.peer().qp) == EINVAL);
    CHECK(ibv_dereg_mr(side.peer().mr) == EINVAL);
    CHECK(ibv_alloc_pd(side.peer().context) == nullptr);
  });
}

}  // namespace destroy_test

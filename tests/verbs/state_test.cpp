// The queue pair's state machine: ibv_modify_qp(3), ibv_create_qp(3), ibv_query_qp(3).
#include <doctest/doctest.h>

#include <cstring>

#include "tests/verbs/pair.h"

namespace state_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

PairOptions up_to(ibv_qp_state state) {
  return {.configure = [state](Setup& setup, int) { setup.until = state; }};
}

int modify(Side& side, ibv_qp_attr attr, int mask) { return ibv_modify_qp(side.qp, &attr, mask); }

ibv_qp_attr rtr_attr(const Side& side) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = side.peer().qp->qp_num;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = side.peer().gid;
  attr.ah_attr.grh.sgid_index = 1;
  return attr;
}

constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRtsMask =
    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT;

}  // namespace

// The table of required attributes for IBV_QPT_RC in ibv_modify_qp(3).
TEST_CASE("each transition to INIT, RTR and RTS fails without any one of its required attributes") {
  run_pair(up_to(IBV_QPS_RESET), [](Side& side) {
    ibv_qp_attr init{};
    init.qp_state = IBV_QPS_INIT;
    init.port_num = 1;
    for (const int missing : {IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_ACCESS_FLAGS}) {
      const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
      CHECK(modify(side, init, mask & ~missing) == EINVAL);
      CHECK(side.state() == IBV_QPS_RESET);
    }
    CHECK(side.to_init() == 0);
    for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
      if ((kRtrMask & bit) == 0 || bit == IBV_QP_STATE) continue;
      CAPTURE(bit);
      CHECK(modify(side, rtr_attr(side), kRtrMask & ~bit) == EINVAL);
      CHECK(side.state() == IBV_QPS_INIT);
    }
    CHECK(side.to_rtr() == 0);
    ibv_qp_attr rts{};
    rts.qp_state = IBV_QPS_RTS;
    for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
      if ((kRtsMask & bit) == 0 || bit == IBV_QP_STATE) continue;
      CAPTURE(bit);
      CHECK(modify(side, rts, kRtsMask & ~bit) == EINVAL);
      CHECK(side.state() == IBV_QPS_RTR);
    }
    CHECK(side.to_rts() == 0);
    CHECK(side.state() == IBV_QPS_RTS);
  });
}

// Linux ib_modify_qp_is_ok and its qp_state_table, drivers/infiniband/core/verbs.c.
TEST_CASE("attributes that a transition does not take are EINVAL, states may not be skipped") {
  run_pair(up_to(IBV_QPS_RESET), [](Side& side) {
    CHECK(side.to_rtr() == EINVAL);  // from RESET
    CHECK(side.to_rts() == EINVAL);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    CHECK(modify(side, attr, kInit | IBV_QP_DEST_QPN) == EINVAL);
    CHECK(modify(side, attr, kInit | IBV_QP_QKEY) == EINVAL);
    CHECK(side.to_init() == 0);
    CHECK(side.to_rts() == EINVAL);  // from INIT
    CHECK(side.to_init() == 0);      // INIT to INIT may change its attributes
    CHECK(side.to_rtr() == 0);
    CHECK(side.to_init() == EINVAL);
    CHECK(side.to_rts() == 0);
    attr.qp_state = IBV_QPS_SQD;
    CHECK(modify(side, attr, IBV_QP_STATE) == EOPNOTSUPP);
    attr.qp_state = IBV_QPS_RTS;
    attr.cur_qp_state = IBV_QPS_RTR;
    CHECK(modify(side, attr, IBV_QP_STATE | IBV_QP_CUR_STATE) == EINVAL);  // it is not in that state
    attr.cur_qp_state = IBV_QPS_RTS;
    CHECK(modify(side, attr, IBV_QP_STATE | IBV_QP_CUR_STATE) == 0);
  });
}

// InfiniBand Architecture, volume 1, 10.3.1; Linux qp_state_table: RESET and ERR may follow INIT, RTR and RTS.
TEST_CASE("RESET and ERR can be reached from every state, and a reset queue pair connects again") {
  run_pair(up_to(IBV_QPS_RESET), [](Side& side) {
    const auto go = [&](ibv_qp_state state) {
      ibv_qp_attr attr{};
      attr.qp_state = state;
      CHECK(modify(side, attr, IBV_QP_STATE) == 0);
      CHECK(side.state() == state);
    };
    for (const ibv_qp_state from : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
      for (const ibv_qp_state to : {IBV_QPS_ERR, IBV_QPS_RESET}) {
        side.setup.until = from;
        side.connect();
        CHECK(side.state() == from);
        go(to);
        go(IBV_QPS_RESET);
      }
    }
    side.setup.until = IBV_QPS_RTS;
    side.connect();
    side.barrier();
    CHECK(side.post_write(1, 0, 64) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
  });
}

// ibv_modify_qp(3): if any attribute is invalid "none of the attributes will be modified"; Linux rxe_qp_chk_attr.
TEST_CASE("values that the port cannot take are EINVAL: MTU, port, partition key, GID index, read depth, timers") {
  auto cluster = ring_cluster(2);
  for (auto& node : cluster.nodes) node.nics[0].mtu_bytes = 1500;  // active MTU 1024
  auto options = up_to(IBV_QPS_RESET);
  options.cluster = cluster;
  run_pair(options, [](Side& side) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    attr.port_num = 2;
    CHECK(modify(side, attr, kInit) == EINVAL);
    attr.port_num = 1;
    attr.pkey_index = 1;
    CHECK(modify(side, attr, kInit) == EINVAL);
    CHECK(side.to_init() == 0);
    const auto refused = [&](auto change, int error = EINVAL) {
      ibv_qp_attr rtr = rtr_attr(side);
      change(rtr);
      CHECK(modify(side, rtr, kRtrMask) == error);
      CHECK(side.state() == IBV_QPS_INIT);
    };
    refused([](ibv_qp_attr& rtr) { rtr.path_mtu = IBV_MTU_2048; });
    refused([](ibv_qp_attr& rtr) { rtr.max_dest_rd_atomic = 17; });
    refused([](ibv_qp_attr& rtr) { rtr.min_rnr_timer = 32; });
    refused([](ibv_qp_attr& rtr) { rtr.dest_qp_num = 1U << 24U; });
    refused([](ibv_qp_attr& rtr) { rtr.ah_attr.is_global = 0; });
    refused([](ibv_qp_attr& rtr) { rtr.ah_attr.port_num = 0; });
    // An empty entry of the GID table, and one past it: Linux rdma_get_gid_attr.
    refused([](ibv_qp_attr& rtr) { rtr.ah_attr.grh.sgid_index = 7; }, ENODATA);
    refused([](ibv_qp_attr& rtr) { rtr.ah_attr.grh.sgid_index = 200; });
    CHECK(modify(side, rtr_attr(side), kRtrMask) == 0);
    ibv_qp_attr rts{};
    rts.qp_state = IBV_QPS_RTS;
    rts.retry_cnt = 8;
    CHECK(modify(side, rts, kRtsMask) == EINVAL);
    rts.retry_cnt = 7;
    rts.max_rd_atomic = 17;
    CHECK(modify(side, rts, kRtsMask) == EINVAL);
    rts.max_rd_atomic = 16;
    CHECK(modify(side, rts, kRtsMask) == 0);
  });
}

// ibv_query_qp(3)
TEST_CASE("ibv_query_qp gives back what was set") {
  run_pair([](Side& side) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    CHECK(ibv_query_qp(side.qp, &attr, IBV_QP_STATE | IBV_QP_AV, &init) == 0);
    CHECK(attr.qp_state == IBV_QPS_RTS);
    CHECK(attr.dest_qp_num == side.peer().qp->qp_num);
    CHECK(attr.timeout == 14);
    CHECK(attr.path_mtu == IBV_MTU_4096);
    CHECK(attr.sq_psn == side.setup.sq_psn);
    CHECK(attr.rq_psn == side.peer().setup.sq_psn);
    CHECK(std::memcmp(&attr.ah_attr.grh.dgid, &side.peer().gid, 16) == 0);
    CHECK(init.cap.max_send_wr == 64);
    CHECK(init.cap.max_inline_data == 256);
    CHECK(init.send_cq == side.cq);
    CHECK(init.sq_sig_all == 1);
    CHECK(ibv_query_qp_data_in_order(side.qp, IBV_WR_RDMA_WRITE, 0) == 1);
    CHECK(ibv_qp_to_qp_ex(side.qp) == nullptr);
  });
}

// ibv_create_qp(3), ibv_create_qp_ex(3)
TEST_CASE("only reliable connections within the device's limits can be created") {
  run_pair([](Side& side) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = side.cq;
    init.qp_type = IBV_QPT_UD;
    init.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    CHECK(ibv_create_qp(side.pd, &init) == nullptr);
    CHECK(errno == EOPNOTSUPP);
    init.qp_type = IBV_QPT_RC;
    init.cap.max_inline_data = 257;
    CHECK(ibv_create_qp(side.pd, &init) == nullptr);
    CHECK(errno == EINVAL);
    init.cap.max_inline_data = 0;
    init.cap.max_send_sge = 17;
    CHECK(ibv_create_qp(side.pd, &init) == nullptr);
    ibv_qp_init_attr_ex extended{};
    extended.send_cq = extended.recv_cq = side.cq;
    extended.qp_type = IBV_QPT_RC;
    extended.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    extended.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    extended.pd = side.pd;
    ibv_qp* qp = ibv_create_qp_ex(side.context, &extended);
    REQUIRE(qp != nullptr);
    CHECK(ibv_destroy_qp(qp) == 0);
    extended.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    CHECK(ibv_create_qp_ex(side.context, &extended) == nullptr);
    CHECK(errno == EOPNOTSUPP);
  });
}

// ibv_post_send(3), ibv_post_recv(3): states of the InfiniBand Architecture, volume 1, 10.3.1.
TEST_CASE("sends can be posted in RTS only, receives from INIT on") {
  run_pair(up_to(IBV_QPS_RESET), [](Side& side) {
    CHECK(side.post_recv(1, 0, 64) == EINVAL);
    CHECK(side.post_write(1, 0, 64) == EINVAL);
    CHECK(side.to_init() == 0);
    CHECK(side.post_recv(1, 0, 64) == 0);
    CHECK(side.post_write(1, 0, 64) == EINVAL);
    CHECK(side.to_rtr() == 0);
    CHECK(side.post_write(1, 0, 64) == EINVAL);
    CHECK(side.to_rts() == 0);
    side.barrier();
    CHECK(side.post_write(1, 0, 64) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
  });
}

}  // namespace state_test

// Each error completion, and what becomes of the requests behind it. Statuses: ibv_poll_cq(3) and the InfiniBand
// Architecture, volume 1, 9.9 (responder faults) and 10.10.3 (completion errors).
#include <doctest/doctest.h>

#include "tests/verbs/pair.h"

namespace error_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

/// The statuses of the next `count` completions; their wr_ids must count up from 1.
std::vector<ibv_wc_status> statuses(const Side& side, int count) {
  std::vector<ibv_wc_status> result;
  for (int id = 1; id <= count; ++id) {
    const ibv_wc wc = side.wait();
    CHECK(wc.wr_id == static_cast<std::uint64_t>(id));
    CHECK(wc.qp_num == side.qp->qp_num);
    result.push_back(wc.status);
  }
  return result;
}

ibv_send_wr write_to(const Side& side, std::uint64_t id, ibv_sge* sge, std::uint64_t address, std::uint32_t rkey) {
  ibv_send_wr wr = side.write_wr(id, sge);
  wr.wr.rdma.remote_addr = address;
  wr.wr.rdma.rkey = rkey;
  return wr;
}

std::uint64_t base_of(const Side& side) { return reinterpret_cast<std::uint64_t>(side.memory.data()); }

ibv_async_event next_event(const Side& side) {
  ibv_async_event event{};
  do {
    CHECK(ibv_get_async_event(side.context, &event) == 0);
    ibv_ack_async_event(&event);
  } while (event.event_type == IBV_EVENT_COMM_EST);
  return event;
}

/// Side 0 posts what `post` says and must get `status`; both queue pairs end in ERR, side 1 with `event`.
void expect_remote_fault(const PairOptions& options, ibv_wc_status status, std::optional<ibv_event_type> event,
                         const std::function<void(Side&)>& prepare, const std::function<void(Side&)>& post) {
  run_pair(options, [&](Side& side) {
    if (side.index == 1) {
      prepare(side);
      side.barrier();
      side.barrier();
      CHECK(side.state() == IBV_QPS_ERR);
      if (event) {
        const ibv_async_event seen = next_event(side);
        CHECK(seen.event_type == *event);
        CHECK(seen.element.qp == side.qp);
      }
      return;
    }
    side.barrier();
    post(side);
    CHECK(side.post_write(2, 0, 8) == 0);
    CHECK(statuses(side, 2) == std::vector{status, IBV_WC_WR_FLUSH_ERR});
    CHECK(side.state() == IBV_QPS_ERR);
    side.barrier();
  });
}

const auto kNothing = [](Side&) {};

}  // namespace

// InfiniBand Architecture, volume 1, 11.6.2: Local Protection Error, Work Request Flushed Error.
TEST_CASE("a wrong local key: LOC_PROT_ERR in its turn, the rest flushed in order") {
  run_pair([](Side& side) {
    if (side.index != 0) return;
    ibv_sge sge = side.sge(0, 64);
    CHECK(side.post_write(1, 0, 64) == 0);
    ibv_send_wr wr = side.write_wr(2, &sge);
    sge.lkey ^= 0x100;
    CHECK(side.post(wr) == 0);  // found when it is executed, not when it is posted
    CHECK(side.post_write(3, 0, 64) == 0);
    CHECK(side.post_write(4, 0, 64) == 0);
    CHECK(statuses(side, 4) ==
          std::vector{IBV_WC_SUCCESS, IBV_WC_LOC_PROT_ERR, IBV_WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR});
    CHECK(side.state() == IBV_QPS_ERR);
    CHECK(side.post_write(5, 0, 64) == 0);  // accepted in ERR, and flushed
    CHECK(side.wait().status == IBV_WC_WR_FLUSH_ERR);
  });
}

// InfiniBand Architecture, volume 1, 11.6.2: Local Protection Error; ibv_reg_mr(3): IBV_ACCESS_LOCAL_WRITE.
TEST_CASE("local memory outside of its region, and read data into a region without local write: LOC_PROT_ERR") {
  run_pair([](Side& side) {
    if (side.index != 0) return;
    ibv_sge sge = side.sge(side.memory.size() - 8, 9);
    ibv_send_wr wr = side.write_wr(1, &sge);
    CHECK(side.post(wr) == 0);
    CHECK(side.wait().status == IBV_WC_LOC_PROT_ERR);
  });
  run_pair([](Side& side) {
    if (side.index != 0) return;
    char read_only[64];
    ibv_mr* mr = ibv_reg_mr(side.pd, read_only, sizeof(read_only), 0);
    REQUIRE(mr != nullptr);
    ibv_sge target = side.sge(0, 64);
    ibv_send_wr wr = side.write_wr(1, &target);
    ibv_sge sge{reinterpret_cast<std::uint64_t>(read_only), 64, mr->lkey};
    wr.sg_list = &sge;
    wr.opcode = IBV_WR_RDMA_READ;
    CHECK(side.post(wr) == 0);
    CHECK(side.wait().status == IBV_WC_LOC_PROT_ERR);
  });
}

// ibv_query_port(3): max_msg_sz, "Maximum message size"; InfiniBand Architecture, volume 1, 11.6.2: Local Length Error.
TEST_CASE("more than max_msg_sz: LOC_LEN_ERR") {
  run_pair([](Side& side) {
    if (side.index != 0) return;
    // The length alone decides; the memory behind it is never touched.
    ibv_sge sge{base_of(side), (1U << 30U) + 1, side.mr->lkey};
    CHECK(side.post(side.write_wr(1, &sge)) == 0);
    CHECK(side.wait().status == IBV_WC_LOC_LEN_ERR);
  });
}

// Linux rxe's check_rkey: class C, NAK remote access error; ibv_get_async_event(3): IBV_EVENT_QP_ACCESS_ERR.
TEST_CASE("a wrong remote key: REM_ACCESS_ERR, and the responder's queue pair fails with QP_ACCESS_ERR") {
  expect_remote_fault({}, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, kNothing, [](Side& side) {
    ibv_sge sge = side.sge(0, 64);
    CHECK(side.post(write_to(side, 1, &sge, base_of(side.peer()), side.peer().mr->rkey ^ 0x100)) == 0);
  });
}

// Linux rxe's check_rkey: mr_check_range over the whole length of the request, before anything is written.
TEST_CASE("a write one byte past the end of the region: REM_ACCESS_ERR, and not a byte is written") {
  expect_remote_fault({}, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, kNothing, [](Side& side) {
    ibv_sge sge = side.sge(0, 64);
    Side& peer = side.peer();
    CHECK(side.post(write_to(side, 1, &sge, base_of(peer) + peer.memory.size() - 63, peer.mr->rkey)) == 0);
    sleep(kPicosecondsPerMillisecond);
    CHECK(peer.memory.back() == 'B');
    CHECK(peer.memory[peer.memory.size() - 63] == 'B');
  });
}

// ibv_reg_mr(3): IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ; Linux rxe's lookup_mr.
TEST_CASE("the region's access flags decide what a peer may do: REM_ACCESS_ERR") {
  const auto region_with = [](unsigned access) {
    return PairOptions{.configure = [access](Setup& setup, int) { setup.access = access; }};
  };
  expect_remote_fault(region_with(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ), IBV_WC_REM_ACCESS_ERR,
                      IBV_EVENT_QP_ACCESS_ERR, kNothing, [](Side& side) { CHECK(side.post_write(1, 0, 8) == 0); });
  expect_remote_fault(region_with(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE), IBV_WC_REM_ACCESS_ERR,
                      IBV_EVENT_QP_ACCESS_ERR, kNothing, [](Side& side) { CHECK(side.post_read(1, 0, 8) == 0); });
}

// Linux rxe's lookup_mr: "verify that the (qp) pd matches the mr pd".
TEST_CASE("a key of another protection domain: REM_ACCESS_ERR") {
  ibv_mr* foreign = nullptr;
  expect_remote_fault(
      {}, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR,
      [&](Side& side) {
        ibv_pd* pd = ibv_alloc_pd(side.context);
        foreign = ibv_reg_mr(pd, side.memory.data(), 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
      },
      [&](Side& side) {
        ibv_sge sge = side.sge(0, 64);
        CHECK(side.post(write_to(side, 1, &sge, base_of(side.peer()), foreign->rkey)) == 0);
      });
}

// qp_access_flags: soft-RoCE's check_op_valid and the specification's 9.7.4.1.5 call an operation that the queue pair
// does not allow an invalid request.
TEST_CASE("the queue pair's access flags: REM_INV_REQ_ERR") {
  const auto without = [](unsigned flag) {
    return PairOptions{.configure = [flag](Setup& setup, int) { setup.qp_access &= ~flag; }};
  };
  expect_remote_fault(without(IBV_ACCESS_REMOTE_WRITE), IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, kNothing,
                      [](Side& side) { CHECK(side.post_write(1, 0, 8) == 0); });
  expect_remote_fault(without(IBV_ACCESS_REMOTE_READ), IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, kNothing,
                      [](Side& side) { CHECK(side.post_read(1, 0, 8) == 0); });
}

// ibv_modify_qp(3): max_dest_rd_atomic. Answers come in order, so that the read before the fault is still answered.
TEST_CASE("more reads than the responder has resources for: REM_INV_REQ_ERR for the first one too many") {
  run_pair({.configure = [](Setup& setup, int) { setup.max_dest_rd_atomic = 1; }}, [](Side& side) {
    if (side.index == 1) {
      const ibv_async_event seen = next_event(side);
      CHECK(seen.event_type == IBV_EVENT_QP_REQ_ERR);
      return;
    }
    for (std::uint64_t id = 1; id <= 3; ++id) CHECK(side.post_read(id, 0, 1U << 20U) == 0);
    CHECK(statuses(side, 3) == std::vector{IBV_WC_SUCCESS, IBV_WC_REM_INV_REQ_ERR, IBV_WC_WR_FLUSH_ERR});
    CHECK(side.memory[0] == 'B');
  });
}

// InfiniBand Architecture, volume 1, 11.6.2: Local Length Error, Remote Invalid Request Error.
TEST_CASE("a receive that is too small: LOC_LEN_ERR there, REM_INV_REQ_ERR here, later receives flushed") {
  run_pair([](Side& side) {
    if (side.index == 1) {
      CHECK(side.post_recv(1, 0, 63) == 0);
      CHECK(side.post_recv(2, 0, 64) == 0);
      side.barrier();
      CHECK(statuses(side, 2) == std::vector{IBV_WC_LOC_LEN_ERR, IBV_WC_WR_FLUSH_ERR});
      CHECK(side.state() == IBV_QPS_ERR);
      CHECK(side.memory[0] == 'B');
      CHECK(side.post_recv(3, 0, 64) == 0);
      CHECK(side.wait().status == IBV_WC_WR_FLUSH_ERR);
      return;
    }
    side.barrier();
    CHECK(side.post_send(1, 0, 64) == 0);
    CHECK(side.wait().status == IBV_WC_REM_INV_REQ_ERR);
  });
}

// InfiniBand Architecture, volume 1, 11.6.2: Local Protection Error, Remote Operation Error.
TEST_CASE("a receive with a wrong key: LOC_PROT_ERR there, REM_OP_ERR here") {
  run_pair([](Side& side) {
    if (side.index == 1) {
      ibv_sge sge = side.sge(0, 64);
      sge.lkey = 0;
      ibv_recv_wr wr{};
      wr.wr_id = 1;
      wr.sg_list = &sge;
      wr.num_sge = 1;
      ibv_recv_wr* bad = nullptr;
      CHECK(ibv_post_recv(side.qp, &wr, &bad) == 0);
      side.barrier();
      CHECK(side.wait().status == IBV_WC_LOC_PROT_ERR);
      return;
    }
    side.barrier();
    CHECK(side.post_send(1, 0, 64) == 0);
    CHECK(side.wait().status == IBV_WC_REM_OP_ERR);
  });
}

// Linux rxe's check_length: a packet's payload above the responder's path MTU is a length error, class C.
TEST_CASE("a sender with a larger path MTU: REM_INV_REQ_ERR for messages that need it, smaller ones get through") {
  const auto mismatched = [](Setup& setup, int index) { setup.path_mtu = index == 0 ? IBV_MTU_4096 : IBV_MTU_1024; };
  expect_remote_fault({.configure = mismatched}, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR, kNothing,
                      [](Side& side) {
                        CHECK(side.post_write(0, 0, 1024) == 0);
                        CHECK(side.wait().status == IBV_WC_SUCCESS);
                        CHECK(side.post_write(1, 0, 1025) == 0);
                      });
}

// InfiniBand Architecture, volume 1, 10.3.1.7 (Error state) and 10.7.3.1: errors complete although unsignalled.
TEST_CASE("moving to ERR flushes both queues in order, signalled or not") {
  const auto quiet = [](Setup& setup, int index) {
    setup.signal_all = false;
    setup.until = index == 0 ? IBV_QPS_RTS : IBV_QPS_INIT;  // the peer never answers
  };
  run_pair({.configure = quiet}, [](Side& side) {
    if (side.index != 0) return;
    for (std::uint64_t id = 1; id <= 3; ++id) CHECK(side.post_write(id, 0, 8) == 0);
    for (std::uint64_t id = 4; id <= 6; ++id) CHECK(side.post_recv(id, 0, 8) == 0);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    CHECK(ibv_modify_qp(side.qp, &attr, IBV_QP_STATE) == 0);
    CHECK(statuses(side, 6) == std::vector<ibv_wc_status>(6, IBV_WC_WR_FLUSH_ERR));
  });
}

// Linux rxe's write_data_in: a region that cannot be written any more is an R_Key violation.
TEST_CASE("a region that is deregistered while a write is on its way: REM_ACCESS_ERR, its memory untouched") {
  run_pair([](Side& side) {
    if (side.index == 1) {
      side.barrier();
      CHECK(ibv_dereg_mr(side.mr) == 0);
      side.barrier();
      return;
    }
    CHECK(side.post_write(1, 0, 1U << 20U) == 0);
    side.barrier();
    CHECK(side.wait().status == IBV_WC_REM_ACCESS_ERR);
    CHECK(side.peer().memory[0] == 'B');
    side.barrier();
  });
}

// InfiniBand Architecture, volume 1, 11.6.2: Local Protection Error; ibv_reg_mr(3): ibv_dereg_mr ends the L_Key.
TEST_CASE("a source region that is deregistered while its write is on its way: LOC_PROT_ERR") {
  run_pair([](Side& side) {
    if (side.index != 0) return;
    CHECK(side.post_write(1, 0, 1U << 20U) == 0);
    CHECK(ibv_dereg_mr(side.mr) == 0);
    CHECK(side.wait().status == IBV_WC_LOC_PROT_ERR);
    CHECK(side.peer().memory[0] == 'B');
  });
}

}  // namespace error_test

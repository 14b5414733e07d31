// The receiver that is not ready, and the one whose receive does not fit.

#include <string>

#include "tests/contract/suite/suite.h"

namespace meshbed::contract {
namespace {

/// The peer never posts a receive.
void exhausts_rnr(End& end, std::uint8_t rnr_retry, ibv_wr_opcode opcode) {
  end.connect({.rnr_retry = rnr_retry, .min_rnr_timer = 12});
  if (end.active()) {
    need(end.post(Send{.opcode = opcode, .id = 4}), "ibv_post_send");
    end.sees("the request", end.next(), "4 RNR_RETRY_EXC_ERR");
    end.sees("state", end.state(), "ERR");
  }
  end.meet();
  if (!end.active()) end.sees("the receiver stays connected", end.state(), "RTS");
}

constexpr const char* kMalformed =
    "drivers/infiniband/sw/rxe/rxe_resp.c, send_data_in: RESPST_ERR_MALFORMED_WQE for whatever copy_data (rxe_mr.c) "
    "refuses with anything but -ENOSPC; rxe_responder ends it with IB_WC_LOC_QP_OP_ERR and a NAK of an operation error";

/// The receive fails: both ends' completions, and that both leave their states.
void receive_fails(End& end, const Receive& receive, const std::string& at_receiver, const std::string& at_sender) {
  if (!end.active()) need(end.post(receive), "ibv_post_recv");
  if (!end.active()) need(end.post(Receive{.id = 9}), "ibv_post_recv");
  end.meet();
  if (end.active()) {
    need(end.post(Send{.opcode = IBV_WR_SEND, .id = 4, .bytes = 100}), "ibv_post_send");
    if (at_sender == "REM_OP_ERR") {
      end.sees("at the sender", end.next(), "4 REM_OP_ERR");
    } else {
      end.sees("at the sender", end.next(), "4 " + at_sender, {"4 REM_OP_ERR", kMalformed});
    }
    end.sees("its state", end.state(), "ERR");
    return;
  }
  end.sees("at the receiver", end.next(), "6 " + at_receiver, {"6 LOC_QP_OP_ERR", kMalformed});
  end.sees("the receive behind it", end.next(), "9 WR_FLUSH_ERR");
  end.sees("its state", end.state(), "ERR");
}

const Contract kReceiverContracts[] = {
    {"a send waits for a receive that is posted late", "ibv_modify_qp(3): rnr_retry, min_rnr_timer",
     [](End& end) {
       end.connect();
       if (end.active()) {
         need(end.post(Send{.opcode = IBV_WR_SEND, .id = 4}), "ibv_post_send");
         end.sees("before there is a receive", end.silence(), "nothing");
         end.meet();
         end.sees("the send", end.next(), "4 SUCCESS SEND");
         return;
       }
       end.meet();
       need(end.post(Receive{.id = 6}), "ibv_post_recv");
       end.sees("the receive", end.next(), "6 SUCCESS RECV 64 bytes");
     }},
    {"what waits behind a receiver that is not ready comes in order", "ibv_modify_qp(3): rnr_retry",
     [](End& end) {
       end.connect();
       if (end.active()) {
         end.set_word(0, 77);
         need(end.post(Send{.opcode = IBV_WR_SEND, .id = 1}), "ibv_post_send");
         need(end.post(Send{.id = 2, .bytes = 8, .to = 800}), "ibv_post_send");
         end.meet();
         end.sees("both", end.next(2), "1 SUCCESS SEND, 2 SUCCESS RDMA_WRITE");
         end.meet();
         return;
       }
       end.meet();
       end.sees("the write behind it", std::to_string(end.word(800)), "0");
       need(end.post(Receive{.id = 6}), "ibv_post_recv");
       end.sees("the receive", end.next(), "6 SUCCESS RECV 64 bytes");
       end.meet();
       end.sees("the write now", std::to_string(end.word(800)), "77");
     }},
    {"with rnr_retry 0 the first refusal is the end", "ibv_modify_qp(3): rnr_retry; IBV_WC_RNR_RETRY_EXC_ERR",
     [](End& end) { exhausts_rnr(end, 0, IBV_WR_SEND); }},
    {"rnr_retry 3 is used up", "ibv_modify_qp(3): rnr_retry; IBV_WC_RNR_RETRY_EXC_ERR",
     [](End& end) { exhausts_rnr(end, 3, IBV_WR_SEND); }},
    {"a write with immediate needs a receive too", "ibv_post_send(3): IBV_WR_RDMA_WRITE_WITH_IMM",
     [](End& end) { exhausts_rnr(end, 1, IBV_WR_RDMA_WRITE_WITH_IMM); }},
    {"a plain write needs no receive", "ibv_post_send(3): IBV_WR_RDMA_WRITE",
     [](End& end) {
       end.connect({.rnr_retry = 0});
       if (!end.active()) return;
       need(end.post(Send{}), "ibv_post_send");
       end.sees("the write", end.next(), "1 SUCCESS RDMA_WRITE");
     }},
    {"a receive that is too short is a length error",
     "ibv_poll_cq(3): IBV_WC_LOC_LEN_ERR; InfiniBand Architecture, volume 1, 9.9.3",
     [](End& end) {
       end.connect();
       receive_fails(end, {.id = 6, .bytes = 99}, "LOC_LEN_ERR", "REM_INV_REQ_ERR");
     }},
    {"a receive with a wrong key is a protection error",
     "ibv_poll_cq(3): IBV_WC_LOC_PROT_ERR; InfiniBand Architecture, volume 1, 9.9.3",
     [](End& end) {
       end.connect();
       receive_fails(end, {.id = 6, .lkey = 0xdead00}, "LOC_PROT_ERR", "REM_OP_ERR");
     }},
    {"a receive beyond its region is a protection error",
     "ibv_poll_cq(3): IBV_WC_LOC_PROT_ERR; InfiniBand Architecture, volume 1, 9.9.3",
     [](End& end) {
       end.connect();
       receive_fails(end, {.id = 6, .to = end.memory.size() - 50}, "LOC_PROT_ERR", "REM_OP_ERR");
     }},
    {"a receive into memory that may not be written is a protection error",
     "ibv_reg_mr(3): IBV_ACCESS_LOCAL_WRITE; ibv_poll_cq(3): IBV_WC_LOC_PROT_ERR",
     [](End& end) {
       end.connect({.access = IBV_ACCESS_REMOTE_READ});
       receive_fails(end, {.id = 6}, "LOC_PROT_ERR", "REM_OP_ERR");
     }},
};

}  // namespace

std::span<const Contract> receiver_contracts() { return kReceiverContracts; }

}  // namespace meshbed::contract

// Peers that do not answer: retries and their end.

#include <string>

#include "tests/contract/suite/suite.h"

namespace meshbed::contract {
namespace {

// 4.096 us * 2^12 = 17 ms, and two retries.
constexpr std::uint8_t kShortTimeout = 12, kFewRetries = 2;
constexpr const char* kRetries = "ibv_modify_qp(3): timeout, retry_cnt; IBV_WC_RETRY_EXC_ERR";

void gives_up(End& end, const Send& send) {
  Send request = send;
  request.id = 4;
  need(end.post(request), "ibv_post_send");
  end.sees("the request", end.next(), "4 RETRY_EXC_ERR");
  end.sees("state", end.state(), "ERR");
}

/// The active end is connected; the passive one stops on its way at `stop`.
void peer_stops_at(End& end, ibv_qp_state stop) {
  end.open({.timeout = kShortTimeout, .retry_cnt = kFewRetries});
  end.exchange();
  if (end.active() || stop >= IBV_QPS_INIT) need(end.to_init(), "ibv_modify_qp to INIT");
  if (end.active()) {
    need(end.to_rtr(), "ibv_modify_qp to RTR");
    need(end.to_rts(), "ibv_modify_qp to RTS");
  }
  end.meet();
  if (end.active()) gives_up(end, {});
}

const Contract kRetryContracts[] = {
    {"a peer in RESET does not answer", kRetries, [](End& end) { peer_stops_at(end, IBV_QPS_RESET); }},
    {"a peer in INIT does not answer", kRetries, [](End& end) { peer_stops_at(end, IBV_QPS_INIT); }},
    {"a peer in ERR does not answer", kRetries,
     [](End& end) {
       end.connect({.timeout = kShortTimeout, .retry_cnt = kFewRetries});
       if (!end.active()) need(end.to_state(IBV_QPS_ERR), "ibv_modify_qp to ERR");
       end.meet();
       if (end.active()) gives_up(end, {.opcode = IBV_WR_SEND});
     }},
    {"a queue pair that was destroyed does not answer", kRetries,
     [](End& end) {
       end.connect({.timeout = kShortTimeout, .retry_cnt = kFewRetries});
       if (!end.active()) {
         need(ibv_destroy_qp(end.qp), "ibv_destroy_qp");
         end.qp = nullptr;
       }
       end.meet();
       if (end.active()) gives_up(end, {.opcode = IBV_WR_RDMA_READ});
     }},
    {"a queue pair number without a queue pair sends no reply", kRetries,
     [](End& end) {
       end.connect({.timeout = kShortTimeout, .retry_cnt = kFewRetries, .dest_qp_num = 0xfffff0});
       if (end.active()) gives_up(end, {});
     }},
    {"with retry_cnt 0 one timeout is the end", kRetries,
     [](End& end) {
       end.connect({.timeout = kShortTimeout, .retry_cnt = 0, .dest_qp_num = 0xfffff0});
       if (end.active()) gives_up(end, {});
     }},
    {"retry_cnt 7 is seven retries", "ibv_modify_qp(3): retry_cnt; of rnr_retry alone 7 is for ever",
     [](End& end) {
       end.connect({.timeout = kShortTimeout, .retry_cnt = 7, .dest_qp_num = 0xfffff0});
       if (!end.active()) return;
       need(end.post(Send{.id = 4}), "ibv_post_send");
       end.sees("the request", end.silence(), "4 RETRY_EXC_ERR",
                {"nothing",
                 "drivers/infiniband/sw/rxe/rxe_comp.c, rxe_completer, COMPST_ERROR_RETRY: does not count down "
                 "from 7"});
     }},
    {"a peer that expects later packets takes what comes for duplicates",
     "InfiniBand Architecture, volume 1, C9-105 and 9.7.5: duplicates are answered, not executed",
     [](End& end) {
       end.connect({.timeout = kShortTimeout, .retry_cnt = kFewRetries, .rq_psn_shift = end.active() ? 0U : 1000U});
       end.set_word(0, end.active() ? 99 : 1);
       end.meet();
       if (end.active()) {
         constexpr const char* kGhost =
             "drivers/infiniband/sw/rxe/rxe_resp.c, duplicate_request: acknowledges ack_psn - 1, which nothing has set "
             "yet; rxe_comp.c, check_psn, takes any later PSN for an acknowledgement";
         need(end.post(Send{.id = 4, .bytes = 8}), "ibv_post_send");
         end.sees("the write", end.next(), "4 RETRY_EXC_ERR", {"4 SUCCESS RDMA_WRITE", kGhost});
         end.sees("state", end.state(), "ERR", {"RTS", kGhost});
       }
       end.meet();
       if (!end.active()) end.sees("the write's place", std::to_string(end.word(0)), "1");
     }},
    {"a peer that expects an earlier packet asks for it until the retries are used up",
     "InfiniBand Architecture, volume 1, 9.7.5: a sequence error NAK uses up a retry",
     [](End& end) {
       end.connect({.timeout = kShortTimeout, .retry_cnt = kFewRetries, .rq_psn_shift = end.active() ? 0U : 0xfffffcU});
       if (end.active()) gives_up(end, {});
     }},
    {"the requests behind a failed one are flushed", "ibv_poll_cq(3): IBV_WC_WR_FLUSH_ERR",
     [](End& end) {
       end.connect({.timeout = kShortTimeout, .retry_cnt = kFewRetries, .dest_qp_num = 0xfffff0});
       if (!end.active()) return;
       need(end.post(Receive{.id = 20}), "ibv_post_recv");
       for (std::uint64_t id = 1; id <= 3; ++id) {
         need(end.post(Send{.id = id, .flags = id == 1 ? kSignalled : 0U}), "ibv_post_send");
       }
       // Sends in order, and receives in order; how both stand to each other is not said.
       std::string sends, receives;
       for (int count = 0; count < 4; ++count) {
         const std::string one = end.next();
         (one.rfind("20 ", 0) == 0 ? receives : sends) += one + ";";
       }
       end.sees("sends", sends, "1 RETRY_EXC_ERR;2 WR_FLUSH_ERR;3 WR_FLUSH_ERR;");
       end.sees("receives", receives, "20 WR_FLUSH_ERR;");
     }},
    {"a peer that comes in time is reached by a retry", kRetries,
     [](End& end) {
       end.open();
       end.exchange();
       need(end.to_init(), "ibv_modify_qp to INIT");
       if (end.active()) {
         need(end.to_rtr(), "ibv_modify_qp to RTR");
         need(end.to_rts(), "ibv_modify_qp to RTS");
         need(end.post(Send{.id = 4}), "ibv_post_send");
       }
       end.meet();
       if (!end.active()) need(end.to_rtr(), "ibv_modify_qp to RTR");
       if (end.active()) end.sees("the write", end.next(), "4 SUCCESS RDMA_WRITE");
     }},
};

}  // namespace

std::span<const Contract> retry_contracts() { return kRetryContracts; }

}  // namespace meshbed::contract

// The error state: what it does with requests, before and after.

#include <string>

#include "tests/contract/suite/suite.h"

namespace meshbed::contract {
namespace {

const Contract kFlushContracts[] = {
    {"ERR flushes receives in the order in which they were posted", "ibv_poll_cq(3): IBV_WC_WR_FLUSH_ERR",
     [](End& end) {
       end.connect();
       for (std::uint64_t id = 1; id <= 4; ++id) need(end.post(Receive{.id = id}), "ibv_post_recv");
       need(end.to_state(IBV_QPS_ERR), "ibv_modify_qp to ERR");
       end.sees("receives", end.next(4), "1 WR_FLUSH_ERR, 2 WR_FLUSH_ERR, 3 WR_FLUSH_ERR, 4 WR_FLUSH_ERR");
     }},
    {"ERR flushes sends, unsignalled ones too",
     "InfiniBand Architecture, volume 1, 10.7.3.1: an error always completes",
     [](End& end) {
       end.connect();
       if (!end.active()) return;
       // The peer has no receive: the sends wait.
       for (std::uint64_t id = 1; id <= 3; ++id) {
         need(end.post(Send{.opcode = IBV_WR_SEND, .id = id, .flags = id == 2 ? kSignalled : 0U}), "ibv_post_send");
       }
       need(end.to_state(IBV_QPS_ERR), "ibv_modify_qp to ERR");
       end.sees("sends", end.next(3), "1 WR_FLUSH_ERR, 2 WR_FLUSH_ERR, 3 WR_FLUSH_ERR");
       end.sees("more", end.there(), "none");
     }},
    {"a send posted in ERR is flushed", "InfiniBand Architecture, volume 1, 10.3.1: Error",
     [](End& end) {
       end.connect();
       need(end.to_state(IBV_QPS_ERR), "ibv_modify_qp to ERR");
       end.sees("post", answer(end.post(Send{.id = 5})), "0");
       end.sees("the send", end.next(), "5 WR_FLUSH_ERR");
       end.sees("post an unsignalled one", answer(end.post(Send{.id = 6, .flags = 0})), "0");
       end.sees("the unsignalled one", end.next(), "6 WR_FLUSH_ERR");
     }},
    {"a receive posted in ERR is flushed", "InfiniBand Architecture, volume 1, 10.3.1: Error",
     [](End& end) {
       end.connect();
       need(end.to_state(IBV_QPS_ERR), "ibv_modify_qp to ERR");
       end.sees("post", answer(end.post(Receive{.id = 5})), "0");
       end.sees("the receive", end.silence(), "5 WR_FLUSH_ERR",
                {"nothing",
                 "rdma-core 44, providers/rxe/rxe.c, rxe_post_recv: does not call the kernel, whose responder "
                 "(rxe_resp.c) is not woken"});
     }},
    {"requests that were complete stay complete", "ibv_poll_cq(3)",
     [](End& end) {
       end.connect();
       if (!end.active()) need(end.post(Receive{.id = 1}), "ibv_post_recv");
       if (!end.active()) need(end.post(Receive{.id = 2}), "ibv_post_recv");
       end.meet();
       if (end.active()) need(end.post(Send{.opcode = IBV_WR_SEND}), "ibv_post_send");
       if (end.active()) end.sees("the send", end.next(), "1 SUCCESS SEND");
       end.meet();
       if (end.active()) return;
       need(end.to_state(IBV_QPS_ERR), "ibv_modify_qp to ERR");
       end.sees("both receives", end.next(2), "1 SUCCESS RECV 64 bytes, 2 WR_FLUSH_ERR");
     }},
    {"an error leaves the error state to be seen", "ibv_query_qp(3)",
     [](End& end) {
       end.connect();
       if (end.active()) {
         need(end.post(Send{.rkey = 0xdead00}), "ibv_post_send");
         end.sees("the write", end.next(), "1 REM_ACCESS_ERR");
         end.sees("state", end.state(), "ERR");
         end.sees("back to RTS", answer(end.to_state(IBV_QPS_RTS)), "EINVAL");
       }
     }},
    {"after an error both ends reset and connect anew", "ibv_modify_qp(3)",
     [](End& end) {
       end.connect();
       if (end.active()) {
         need(end.post(Send{.rkey = 0xdead00}), "ibv_post_send");
         end.sees("the write", end.next(), "1 REM_ACCESS_ERR");
       }
       end.meet();
       need(end.to_state(IBV_QPS_RESET), "ibv_modify_qp to RESET");
       end.there();
       end.meet();
       need(end.to_init(), "ibv_modify_qp to INIT");
       need(end.to_rtr(), "ibv_modify_qp to RTR");
       need(end.to_rts(), "ibv_modify_qp to RTS");
       end.meet();
       if (!end.active()) return;
       need(end.post(Send{.id = 2}), "ibv_post_send");
       end.sees("the next write", end.next(), "2 SUCCESS RDMA_WRITE");
     }},
    {"a destroyed queue pair leaves no completions behind", "ibv_destroy_qp(3)",
     [](End& end) {
       end.connect();
       need(end.post(Receive{.id = 1}), "ibv_post_recv");
       end.sees("destroy", answer(ibv_destroy_qp(end.qp)), "0");
       end.qp = nullptr;
       ibv_wc wc{};
       end.sees("completions", std::to_string(ibv_poll_cq(end.cq, 1, &wc)), "0");
     }},
};

}  // namespace

std::span<const Contract> flush_contracts() { return kFlushContracts; }

}  // namespace meshbed::contract

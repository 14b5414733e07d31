// The state machine of a reliable connection: which transitions there are.

#include <string>

#include "tests/contract/suite/suite.h"

namespace meshbed::contract {
namespace {

/// Opens, knows the peer, and goes as far as `state`.
void go_to(End& end, ibv_qp_state state) {
  end.open();
  end.exchange();
  if (state == IBV_QPS_RESET) return;
  need(end.to_init(), "ibv_modify_qp to INIT");
  if (state == IBV_QPS_ERR) return need(end.to_state(IBV_QPS_ERR), "ibv_modify_qp to ERR");
  if (state == IBV_QPS_INIT) return;
  need(end.to_rtr(), "ibv_modify_qp to RTR");
  if (state == IBV_QPS_RTR) return;
  need(end.to_rts(), "ibv_modify_qp to RTS");
}

const Contract kStateContracts[] = {
    {"a new queue pair is in RESET", "ibv_create_qp(3), ibv_query_qp(3)",
     [](End& end) {
       end.open();
       end.sees("state", end.state(), "RESET");
     }},
    {"a queue pair goes from RESET over INIT and RTR to RTS", "ibv_modify_qp(3)",
     [](End& end) {
       end.open();
       end.exchange();
       end.sees("INIT", end.moved(end.to_init()), "0 INIT");
       end.sees("RTR", end.moved(end.to_rtr()), "0 RTR");
       end.sees("RTS", end.moved(end.to_rts()), "0 RTS");
     }},
    {"no state is skipped", "ibv_modify_qp(3): Reset --> Init --> RTR --> RTS",
     [](End& end) {
       go_to(end, IBV_QPS_RESET);
       end.sees("RESET to RTR", answer(end.to_rtr()), "EINVAL");
       end.sees("RESET to RTS", answer(end.to_rts()), "EINVAL");
       need(end.to_init(), "ibv_modify_qp to INIT");
       end.sees("INIT to RTS", answer(end.to_rts()), "EINVAL");
       end.sees("state", end.state(), "INIT");
     }},
    {"there is no way back but RESET", "ibv_modify_qp(3)",
     [](End& end) {
       go_to(end, IBV_QPS_RTS);
       end.sees("RTS to INIT", answer(end.to_init()), "EINVAL");
       end.sees("RTS to RTR", answer(end.to_rtr()), "EINVAL");
       end.sees("state", end.state(), "RTS");
       end.sees("RTS to RESET", end.moved(end.to_state(IBV_QPS_RESET)), "0 RESET");
     }},
    {"ERR and RESET take no attribute but the state", "Linux ib_modify_qp_is_ok: qp_state_table",
     [](End& end) {
       go_to(end, IBV_QPS_RTS);
       ibv_qp_attr attr{};
       attr.qp_state = IBV_QPS_ERR;
       attr.cur_qp_state = IBV_QPS_RTS;
       end.sees("ERR with the current state", end.moved(end.modify(attr, IBV_QP_STATE | IBV_QP_CUR_STATE)),
                "EINVAL RTS");
       end.sees("ERR with a timeout", end.moved(end.modify(attr, IBV_QP_STATE | IBV_QP_TIMEOUT)), "EINVAL RTS");
       attr.qp_state = IBV_QPS_RESET;
       end.sees("RESET with the current state", end.moved(end.modify(attr, IBV_QP_STATE | IBV_QP_CUR_STATE)),
                "EINVAL RTS");
     }},
    {"every state but RESET leads to ERR", "Linux ib_modify_qp_is_ok: qp_state_table",
     [](End& end) {
       end.open();
       end.exchange();
       const auto fails = [&](const char* from) {
         end.sees(from, end.moved(end.to_state(IBV_QPS_ERR)), "0 ERR");
         need(end.to_state(IBV_QPS_RESET), "ibv_modify_qp to RESET");
       };
       end.sees("RESET to ERR", end.moved(end.to_state(IBV_QPS_ERR)), "EINVAL RESET");
       need(end.to_init(), "ibv_modify_qp to INIT");
       fails("INIT to ERR");
       need(end.to_init(), "ibv_modify_qp to INIT");
       need(end.to_rtr(), "ibv_modify_qp to RTR");
       fails("RTR to ERR");
       need(end.to_init(), "ibv_modify_qp to INIT");
       need(end.to_rtr(), "ibv_modify_qp to RTR");
       need(end.to_rts(), "ibv_modify_qp to RTS");
       fails("RTS to ERR");
     }},
    {"ERR leads to RESET and to ERR only", "ibv_modify_qp(3); Linux ib_modify_qp_is_ok",
     [](End& end) {
       go_to(end, IBV_QPS_ERR);
       end.sees("ERR to INIT", answer(end.to_init()), "EINVAL");
       end.sees("ERR to RTR", answer(end.to_rtr()), "EINVAL");
       end.sees("ERR to RTS", answer(end.to_rts()), "EINVAL");
       end.sees("ERR to ERR", end.moved(end.to_state(IBV_QPS_ERR)), "0 ERR");
       end.sees("ERR to RESET", end.moved(end.to_state(IBV_QPS_RESET)), "0 RESET");
     }},
    {"RESET leads to RESET, INIT to INIT, RTS to RTS", "Linux ib_modify_qp_is_ok",
     [](End& end) {
       go_to(end, IBV_QPS_RESET);
       end.sees("RESET to RESET", answer(end.to_state(IBV_QPS_RESET)), "0");
       need(end.to_init(), "ibv_modify_qp to INIT");
       end.sees("INIT to INIT", end.moved(end.to_init()), "0 INIT");
       need(end.to_rtr(), "ibv_modify_qp to RTR");
       end.sees("RTR to RTR", answer(end.to_state(IBV_QPS_RTR)), "EINVAL");
       need(end.to_rts(), "ibv_modify_qp to RTS");
       end.sees("RTS to RTS", end.moved(end.to_state(IBV_QPS_RTS)), "0 RTS");
     }},
    {"a queue pair that was reset connects and works again", "ibv_modify_qp(3)",
     [](End& end) {
       end.connect();
       need(end.to_state(IBV_QPS_ERR), "ibv_modify_qp to ERR");
       need(end.to_state(IBV_QPS_RESET), "ibv_modify_qp to RESET");
       end.meet();  // no peer sends to an end that does not exist yet
       need(end.to_init(), "ibv_modify_qp to INIT");
       need(end.to_rtr(), "ibv_modify_qp to RTR");
       need(end.to_rts(), "ibv_modify_qp to RTS");
       if (end.active()) end.fill(1);
       end.meet();
       if (end.active()) {
         need(end.post(Send{.id = 5}), "ibv_post_send");
         end.sees("write", end.next(), "5 SUCCESS RDMA_WRITE");
       }
       end.meet();
       if (!end.active()) end.sees("the bytes", end.data(1, 0, 64), "as sent");
     }},
    {"RESET forgets what was posted, without completions", "InfiniBand Architecture, volume 1, 10.3.1: Reset",
     [](End& end) {
       end.connect();
       need(end.post(Receive{.id = 1}), "ibv_post_recv");
       need(end.post(Receive{.id = 2}), "ibv_post_recv");
       end.sees("RESET", answer(end.to_state(IBV_QPS_RESET)), "0");
       end.sees("completions", end.there(), "none");
       end.meet();
       need(end.to_init(), "ibv_modify_qp to INIT");
       need(end.to_rtr(), "ibv_modify_qp to RTR");
       need(end.to_rts(), "ibv_modify_qp to RTS");
       need(end.post(Receive{.id = 3}), "ibv_post_recv");
       end.meet();
       if (end.active()) need(end.post(Send{.opcode = IBV_WR_SEND, .id = 4}), "ibv_post_send");
       if (end.active()) end.sees("the send", end.next(), "4 SUCCESS SEND");
       if (!end.active()) end.sees("the receive that was posted since", end.next(), "3 SUCCESS RECV 64 bytes");
     }},
    {"a queue pair in RTR receives", "InfiniBand Architecture, volume 1, 10.3.1: Ready to Receive",
     [](End& end) {
       go_to(end, end.active() ? IBV_QPS_RTS : IBV_QPS_RTR);
       need(end.post(Receive{.id = 9}), "ibv_post_recv");
       end.meet();
       if (end.active()) {
         need(end.post(Send{.opcode = IBV_WR_SEND}), "ibv_post_send");
         end.sees("the send", end.next(), "1 SUCCESS SEND");
       } else {
         end.sees("the receive", end.next(), "9 SUCCESS RECV 64 bytes");
         end.sees("state", end.state(), "RTR");
       }
     }},
    {"the first message in RTR establishes the communication", "ibv_get_async_event(3): IBV_EVENT_COMM_EST",
     [](End& end) {
       go_to(end, end.active() ? IBV_QPS_RTS : IBV_QPS_RTR);
       end.meet();
       if (end.active()) {
         need(end.post(Send{}), "ibv_post_send");
         end.sees("the write", end.next(), "1 SUCCESS RDMA_WRITE");
       }
       end.meet();
       if (!end.active()) {
         end.sees("event", end.no_event(), "COMM_EST own QP",
                  {"nothing", "drivers/infiniband/sw/rxe raises no IB_EVENT_COMM_EST (there is none in the folder)"});
       }
     }},
    {"a queue pair takes no send before RTS", "ibv_post_send(3); InfiniBand Architecture, volume 1, 10.3.1",
     [](End& end) {
       go_to(end, IBV_QPS_RESET);
       end.sees("in RESET", answer(end.post(Send{})), "EINVAL");
       need(end.to_init(), "ibv_modify_qp to INIT");
       end.sees("in INIT", answer(end.post(Send{})), "EINVAL");
       need(end.to_rtr(), "ibv_modify_qp to RTR");
       end.sees("in RTR", answer(end.post(Send{})), "EINVAL");
     }},
    {"a queue pair takes receives from INIT on", "ibv_post_recv(3); InfiniBand Architecture, volume 1, 10.3.1",
     [](End& end) {
       go_to(end, IBV_QPS_RESET);
       end.sees("in RESET", answer(end.post(Receive{})), "EINVAL");
       need(end.to_init(), "ibv_modify_qp to INIT");
       end.sees("in INIT", answer(end.post(Receive{})), "0");
       need(end.to_rtr(), "ibv_modify_qp to RTR");
       end.sees("in RTR", answer(end.post(Receive{})), "0");
     }},
};

}  // namespace

std::span<const Contract> state_contracts() { return kStateContracts; }

}  // namespace meshbed::contract

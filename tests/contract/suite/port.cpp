// Cables that are pulled and plugged in again.

#include <cerrno>
#include <string>

#include "tests/contract/suite/suite.h"

namespace meshbed::contract {
namespace {

/// Both ends pull, so that no end has a carrier; both have seen it afterwards.
void pull(End& end) {
  end.plug(false);
  end.wait_for_port(IBV_PORT_DOWN);
  end.meet();
}

void plug_in(End& end) {
  end.meet();
  end.plug(true);
  end.wait_for_port(IBV_PORT_ACTIVE);
  end.meet();
}

const Contract kPortContracts[] = {
    {"no asynchronous event comes where nothing happens", "ibv_get_async_event(3): O_NONBLOCK",
     [](End& end) {
       end.connect();
       ibv_async_event event{};
       end.sees("events", answer_of_errno(ibv_get_async_event(end.context, &event)), "EAGAIN");
     }},
    {"a pulled cable is an event at both ends, and so is its return",
     "ibv_get_async_event(3): IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE",
     [](End& end) {
       end.connect();
       pull(end);
       end.sees("event", end.event(), "PORT_ERR port 1");
       end.sees("the port", end.port_state(), "DOWN");
       plug_in(end);
       end.sees("event afterwards", end.event(), "PORT_ACTIVE port 1");
       end.sees("the port afterwards", end.port_state(), "ACTIVE");
     }},
    {"a pulled cable fails no queue pair that is idle", "InfiniBand Architecture, volume 1, 10.3.1",
     [](End& end) {
       end.connect();
       need(end.post(Receive{.id = 6}), "ibv_post_recv");
       pull(end);
       end.sees("state", end.state(), "RTS");
       end.sees("completions", end.there(), "none");
       plug_in(end);
       if (end.active()) {
         need(end.post(Send{.opcode = IBV_WR_SEND}), "ibv_post_send");
         end.sees("the send afterwards", end.next(), "1 SUCCESS SEND");
       } else {
         end.sees("the receive afterwards", end.next(), "6 SUCCESS RECV 64 bytes");
       }
     }},
    {"a request over a pulled cable uses up its retries", "ibv_modify_qp(3): retry_cnt; IBV_WC_RETRY_EXC_ERR",
     [](End& end) {
       end.connect({.timeout = 12, .retry_cnt = 2});
       pull(end);
       if (end.active()) {
         need(end.post(Send{.id = 4}), "ibv_post_send");
         end.sees("the write", end.next(), "4 RETRY_EXC_ERR");
         end.sees("state", end.state(), "ERR");
       }
       plug_in(end);
     }},
    {"a request survives a cable that comes back in time", "ibv_modify_qp(3): timeout, retry_cnt",
     [](End& end) {
       end.connect({.timeout = 19});  // 2 s, seven times
       if (!end.active()) {
         end.plug(false);
         end.wait_for_port(IBV_PORT_DOWN);
       }
       end.meet();
       if (end.active()) need(end.post(Send{.id = 4}), "ibv_post_send");
       end.meet();
       if (!end.active()) {
         end.plug(true);
         end.wait_for_port(IBV_PORT_ACTIVE);
       } else {
         end.sees("the write", end.next(), "4 SUCCESS RDMA_WRITE");
       }
     }},
    {"no peer is found over a pulled cable in time", "Linux core/addr.c: rdma_resolve_ip",
     [](End& end) {
       end.open();
       end.exchange();
       need(end.to_init(), "ibv_modify_qp to INIT");
       pull(end);
       end.sees("RTR", answer(end.modify_once(end.rtr_attributes(), kRtrMask)), "ETIMEDOUT");
       plug_in(end);
       end.sees("RTR afterwards", answer(end.to_rtr()), "0");
     }},
};

}  // namespace

std::span<const Contract> port_contracts() { return kPortContracts; }

}  // namespace meshbed::contract

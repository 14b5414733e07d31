// Completion channels and what overruns a queue.

#include <cerrno>
#include <string>

#include "tests/contract/suite/suite.h"

namespace meshbed::contract {
namespace {

/// Connected with a channel; the passive end has posted receives 1 to 4.
void connect_with_channel(End& end) {
  end.connect({.channel = true});
  for (std::uint64_t id = 1; !end.active() && id <= 4; ++id) need(end.post(Receive{.id = id}), "ibv_post_recv");
}

void send(End& end, unsigned flags) {
  need(end.post(Send{.opcode = IBV_WR_SEND, .flags = kSignalled | flags}), "ibv_post_send");
  need(end.next() == "1 SUCCESS SEND" ? 0 : EIO, "the send");
}

const Contract kCompletionEventContracts[] = {
    {"a completion makes an event where it was asked for", "ibv_req_notify_cq(3), ibv_get_cq_event(3)",
     [](End& end) {
       connect_with_channel(end);
       if (!end.active()) end.sees("ask", answer(ibv_req_notify_cq(end.cq, 0)), "0");
       end.meet();
       if (end.active()) return send(end, 0);
       end.sees("the channel", end.completion_event(), "event");
       end.sees("the queue", end.next(), "1 SUCCESS RECV 64 bytes");
     }},
    {"a completion makes no event where it was not asked for", "ibv_req_notify_cq(3)",
     [](End& end) {
       connect_with_channel(end);
       end.meet();
       if (end.active()) return send(end, 0);
       end.sees("the queue", end.next(), "1 SUCCESS RECV 64 bytes");
       end.sees("the channel", end.no_completion_event(), "no event");
     }},
    {"one request is one event", "ibv_req_notify_cq(3): one shot",
     [](End& end) {
       connect_with_channel(end);
       if (!end.active()) need(ibv_req_notify_cq(end.cq, 0), "ibv_req_notify_cq");
       end.meet();
       if (end.active()) {
         send(end, 0);
         return send(end, 0);
       }
       end.sees("the queue", end.next(2), "1 SUCCESS RECV 64 bytes, 2 SUCCESS RECV 64 bytes");
       end.sees("the channel", end.completion_event(), "event");
       end.sees("the channel again", end.no_completion_event(), "no event");
     }},
    {"completions that were there before the request make no event", "ibv_req_notify_cq(3): a new CQ entry",
     [](End& end) {
       connect_with_channel(end);
       end.meet();
       if (end.active()) send(end, 0);
       end.meet();
       if (end.active()) return;
       need(ibv_req_notify_cq(end.cq, 0), "ibv_req_notify_cq");
       end.sees("the channel", end.no_completion_event(), "no event");
       end.sees("the queue", end.next(), "1 SUCCESS RECV 64 bytes");
     }},
    {"an unsolicited send makes no event where solicited ones were asked for", "ibv_req_notify_cq(3): solicited_only",
     [](End& end) {
       connect_with_channel(end);
       if (!end.active()) need(ibv_req_notify_cq(end.cq, 1), "ibv_req_notify_cq");
       end.meet();
       if (end.active()) return send(end, 0);
       end.sees("the queue", end.next(), "1 SUCCESS RECV 64 bytes");
       end.sees("the channel", end.no_completion_event(), "no event");
     }},
    {"a solicited send makes an event", "ibv_req_notify_cq(3): solicited_only; IBV_SEND_SOLICITED",
     [](End& end) {
       connect_with_channel(end);
       if (!end.active()) need(ibv_req_notify_cq(end.cq, 1), "ibv_req_notify_cq");
       end.meet();
       if (end.active()) return send(end, IBV_SEND_SOLICITED);
       end.sees("the channel", end.completion_event(), "event");
       end.sees("the queue", end.next(), "1 SUCCESS RECV 64 bytes");
     }},
    {"a failed receive counts as solicited", "ibv_req_notify_cq(3): or if the status is not successful",
     [](End& end) {
       connect_with_channel(end);
       if (end.active()) return;
       need(ibv_req_notify_cq(end.cq, 1), "ibv_req_notify_cq");
       need(end.to_state(IBV_QPS_ERR), "ibv_modify_qp to ERR");
       end.sees("the channel", end.completion_event(), "event");
       end.sees("the queue", end.next(), "1 WR_FLUSH_ERR");
     }},
    {"a failed send counts as solicited", "ibv_req_notify_cq(3): or if the status is not successful",
     [](End& end) {
       connect_with_channel(end);
       if (!end.active()) return;
       need(ibv_req_notify_cq(end.cq, 1), "ibv_req_notify_cq");
       need(end.post(Send{.rkey = 0xdead00}), "ibv_post_send");
       end.sees("the queue", end.next(), "1 REM_ACCESS_ERR");
       end.sees("the channel", end.no_completion_event(), "event",
                {"no event",
                 "drivers/infiniband/sw/rxe/rxe_comp.c, do_complete: rxe_cq_post with solicited 0, whatever "
                 "the status"});
     }},
    {"a send's completion makes an event", "ibv_req_notify_cq(3): any new CQE",
     [](End& end) {
       end.connect({.channel = true});
       if (!end.active()) return;
       need(ibv_req_notify_cq(end.cq, 0), "ibv_req_notify_cq");
       need(end.post(Send{}), "ibv_post_send");
       end.sees("the channel", end.completion_event(), "event");
       end.sees("the queue", end.next(), "1 SUCCESS RDMA_WRITE");
     }},
    {"an empty channel that must not block says so", "ibv_get_cq_event(3): O_NONBLOCK",
     [](End& end) {
       end.open({.channel = true});
       ibv_cq* cq = nullptr;
       void* context = nullptr;
       end.sees("the channel", answer_of_errno(ibv_get_cq_event(end.channel, &cq, &context)), "EAGAIN");
     }},
    {"an overrun queue says so", "ibv_poll_cq(3): IBV_EVENT_CQ_ERR",
     [](End& end) {
       end.connect({.cqe = 4});
       if (!end.active()) return;
       // More completions than entries, whatever was granted.
       const int entries = end.cq->cqe;
       int posted = 0;
       while (posted < entries + 4 && end.post(Send{.id = static_cast<std::uint64_t>(posted)}) == 0) ++posted;
       end.sees("more requests than entries", yes_or_no(posted > entries), "yes");
       end.sees("event", end.event(), "CQ_ERR own CQ");
     }},
};

}  // namespace

std::span<const Contract> completion_event_contracts() { return kCompletionEventContracts; }

}  // namespace meshbed::contract

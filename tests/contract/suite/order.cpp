// Which completions there are, and in which order things happen.

#include <string>

#include "tests/contract/suite/suite.h"

namespace meshbed::contract {
namespace {

const Contract kOrderContracts[] = {
    {"an unsignalled write leaves no completion", "ibv_post_send(3): IBV_SEND_SIGNALED",
     [](End& end) {
       end.connect();
       if (!end.active()) return;
       need(end.post(Send{.id = 1, .flags = 0}), "ibv_post_send");
       need(end.post(Send{.id = 2}), "ibv_post_send");
       end.sees("the signalled one behind it", end.next(), "2 SUCCESS RDMA_WRITE");
       end.sees("more", end.there(), "none");
     }},
    {"with sq_sig_all every send completes", "ibv_create_qp(3): sq_sig_all",
     [](End& end) {
       end.connect({.signal_all = true});
       if (!end.active()) return;
       need(end.post(Send{.id = 1, .flags = 0}), "ibv_post_send");
       need(end.post(Send{.opcode = IBV_WR_RDMA_READ, .id = 2, .flags = 0}), "ibv_post_send");
       end.sees("both", end.next(2), "1 SUCCESS RDMA_WRITE, 2 SUCCESS RDMA_READ 64 bytes");
     }},
    {"a receive completes though its send is unsignalled", "ibv_post_send(3): IBV_SEND_SIGNALED",
     [](End& end) {
       end.connect();
       if (!end.active()) need(end.post(Receive{.id = 2}), "ibv_post_recv");
       end.meet();
       if (end.active()) {
         need(end.post(Send{.opcode = IBV_WR_SEND, .flags = 0}), "ibv_post_send");
       } else {
         end.sees("the receive", end.next(), "2 SUCCESS RECV 64 bytes");
       }
       end.meet();
       if (end.active()) end.sees("at the sender", end.there(), "none");
     }},
    {"sends complete in the order in which they were posted", "InfiniBand Architecture, volume 1, 10.8: ordering",
     [](End& end) {
       end.connect();
       if (!end.active()) need(end.post(Receive{.id = 2}), "ibv_post_recv");
       end.meet();
       if (!end.active()) return;
       need(end.post(Send{.id = 1, .bytes = 8000}), "ibv_post_send");
       need(end.post(Send{.opcode = IBV_WR_RDMA_READ, .id = 2, .bytes = 8000}), "ibv_post_send");
       need(end.post(Send{.id = 3, .bytes = 1}), "ibv_post_send");
       need(end.post(Send{.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .id = 4, .bytes = 8}), "ibv_post_send");
       need(end.post(Send{.opcode = IBV_WR_SEND, .id = 5, .bytes = 16}), "ibv_post_send");
       end.sees("five kinds", end.next(5),
                "1 SUCCESS RDMA_WRITE, 2 SUCCESS RDMA_READ 8000 bytes, 3 SUCCESS RDMA_WRITE, 4 SUCCESS FETCH_ADD, "
                "5 SUCCESS SEND");
     }},
    {"receives are used in the order in which they were posted", "ibv_post_recv(3)",
     [](End& end) {
       end.connect();
       for (std::uint64_t id = 1; !end.active() && id <= 4; ++id) need(end.post(Receive{.id = id}), "ibv_post_recv");
       end.meet();
       for (std::uint64_t id = 1; end.active() && id <= 4; ++id) {
         need(end.post(Send{.opcode = IBV_WR_SEND, .id = id, .bytes = static_cast<std::uint32_t>(10 * id)}),
              "ibv_post_send");
       }
       if (end.active()) {
         end.sees("sends", end.next(4), "1 SUCCESS SEND, 2 SUCCESS SEND, 3 SUCCESS SEND, 4 SUCCESS SEND");
       } else {
         end.sees("receives", end.next(4),
                  "1 SUCCESS RECV 10 bytes, 2 SUCCESS RECV 20 bytes, 3 SUCCESS RECV 30 bytes, 4 SUCCESS RECV 40 bytes");
       }
     }},
    {"what was written before a send is there when the send is received",
     "InfiniBand Architecture, volume 1, 9.5: transaction ordering",
     [](End& end) {
       end.connect();
       if (end.active()) {
         end.fill(1);
         end.meet();
         need(end.post(Send{.id = 1, .bytes = 30'000, .flags = 0}), "ibv_post_send");
         need(end.post(Send{.opcode = IBV_WR_SEND, .id = 2, .bytes = 1}), "ibv_post_send");
         end.sees("the send", end.next(), "2 SUCCESS SEND");
         return;
       }
       need(end.post(Receive{.id = 7, .to = 40'000}), "ibv_post_recv");
       end.meet();
       end.sees("the receive", end.next(), "7 SUCCESS RECV 1 bytes");
       end.sees("the bytes written before", end.data(1, 0, 30'000), "as sent");
     }},
    {"the last of many writes to one place stays", "InfiniBand Architecture, volume 1, 9.5: transaction ordering",
     [](End& end) {
       end.connect();
       if (end.active()) {
         for (std::size_t at = 0; at < 10; ++at) end.set_word(8 * at, 100 + at);
         for (std::size_t at = 0; at < 10; ++at) {
           need(end.post(Send{.id = at, .bytes = 8, .from = 8 * at, .to = 512, .flags = at == 9 ? kSignalled : 0U}),
                "ibv_post_send");
         }
         end.sees("the last write", end.next(), "9 SUCCESS RDMA_WRITE");
         end.meet();
         return;
       }
       end.meet();
       end.sees("the place", std::to_string(end.word(512)), "109");
     }},
    {"a fenced send waits for the reads before it", "ibv_post_send(3): IBV_SEND_FENCE",
     [](End& end) {
       end.connect();
       if (!end.active()) {
         end.fill(5);
         need(end.post(Receive{.id = 2, .bytes = 20'000, .to = 40'000}), "ibv_post_recv");
         end.meet();
         end.sees("the receive", end.next(), "2 SUCCESS RECV 20000 bytes");
         // What the read brought there came back with the send.
         end.sees("the bytes", end.data(5, 40'000, 20'000, 40'000), "as sent");
         return;
       }
       end.meet();
       need(end.post(Send{.opcode = IBV_WR_RDMA_READ, .id = 1, .bytes = 20'000}), "ibv_post_send");
       need(
           end.post(Send{.opcode = IBV_WR_SEND, .id = 2, .bytes = 20'000, .flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE}),
           "ibv_post_send");
       end.sees("both", end.next(2), "1 SUCCESS RDMA_READ 20000 bytes, 2 SUCCESS SEND");
     }},
    {"more reads than may be outstanding wait their turn", "ibv_modify_qp(3): max_rd_atomic",
     [](End& end) {
       end.connect({.max_rd_atomic = 1, .max_dest_rd_atomic = 1});
       if (!end.active()) return;
       std::string expected;
       for (std::uint64_t id = 1; id <= 10; ++id) {
         need(end.post(Send{.opcode = IBV_WR_RDMA_READ, .id = id, .bytes = 3000}), "ibv_post_send");
         expected += (id == 1 ? "" : ", ") + std::to_string(id) + " SUCCESS RDMA_READ 3000 bytes";
       }
       end.sees("ten reads", end.next(10), expected);
     }},
    {"polling takes no more than it is asked for", "ibv_poll_cq(3)",
     [](End& end) {
       end.connect();
       if (!end.active()) return;
       for (std::uint64_t id = 1; id <= 3; ++id) need(end.post(Send{.id = id}), "ibv_post_send");
       end.sees("the first", end.next(), "1 SUCCESS RDMA_WRITE");
       ibv_wc wc{};
       end.sees("asked for none", std::to_string(ibv_poll_cq(end.cq, 0, &wc)), "0");
       end.sees("the others", end.next(2), "2 SUCCESS RDMA_WRITE, 3 SUCCESS RDMA_WRITE");
       end.sees("then", std::to_string(ibv_poll_cq(end.cq, 1, &wc)), "0");
     }},
    {"both ends send at the same time", "ibv_post_send(3)",
     [](End& end) {
       end.connect();
       end.fill(end.rank() + 1);
       for (std::uint64_t id = 1; id <= 8; ++id) {
         need(end.post(Receive{.id = id, .to = 32'768 + 1024 * id}), "ibv_post_recv");
       }
       end.meet();
       for (std::uint64_t id = 1; id <= 8; ++id) {
         need(end.post(Send{.opcode = IBV_WR_SEND, .id = 100 + id, .bytes = 1000, .flags = id == 8 ? kSignalled : 0U}),
              "ibv_post_send");
       }
       int receives = 0, sends = 0, other = 0;
       for (int count = 0; count < 9; ++count) {
         const std::string one = end.next();
         ++(one == "108 SUCCESS SEND"                                  ? sends
            : one.find("SUCCESS RECV 1000 bytes") != std::string::npos ? receives
                                                                       : other);
       }
       end.sees("receives, sends, others",
                std::to_string(receives) + " " + std::to_string(sends) + " " + std::to_string(other), "8 1 0");
       end.sees("the last one's bytes", end.data(2 - end.rank(), 32'768 + 8192, 1000, 32'768 + 8192), "as sent");
     }},
};

}  // namespace

std::span<const Contract> order_contracts() { return kOrderContracts; }

}  // namespace meshbed::contract

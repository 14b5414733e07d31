// What posting refuses at once, and what it does with the requests before the refused one.

#include <array>
#include <string>

#include "tests/contract/suite/suite.h"

namespace meshbed::contract {
namespace {

constexpr unsigned kInline = IBV_SEND_SIGNALED | IBV_SEND_INLINE;

/// Posts until it is refused; how many were taken, at most `most`.
template <typename Post>
int post_until_refused(int most, int& refusal, Post post) {
  int taken = 0;
  while (taken < most && (refusal = post(taken)) == 0) ++taken;
  return taken;
}

const Contract kPostingContracts[] = {
    {"a full send queue takes no more", "ibv_post_send(3): returns the value of errno",
     [](End& end) {
       end.connect({.send_depth = 8});
       if (!end.active()) return;
       ibv_qp_attr attr{};
       ibv_qp_init_attr init{};
       need(ibv_query_qp(end.qp, &attr, IBV_QP_CAP, &init), "ibv_query_qp");
       // The peer has no receive: nothing completes meanwhile.
       int refusal = 0;
       const int taken = post_until_refused(1000, refusal, [&](int id) {
         return end.post(Send{.opcode = IBV_WR_SEND, .id = static_cast<std::uint64_t>(id)});
       });
       end.sees("taken, at least what was granted", yes_or_no(taken >= static_cast<int>(init.cap.max_send_wr)), "yes");
       end.sees("then", answer(refusal), "ENOMEM");
     }},
    {"a full receive queue takes no more", "ibv_post_recv(3): returns the value of errno",
     [](End& end) {
       end.connect({.recv_depth = 8});
       int refusal = 0;
       const int taken = post_until_refused(
           1000, refusal, [&](int id) { return end.post(Receive{.id = static_cast<std::uint64_t>(id)}); });
       end.sees("taken, at least 8", yes_or_no(taken >= 8), "yes");
       end.sees("then", answer(refusal), "ENOMEM");
     }},
    {"a longer gather list than granted is refused", "ibv_create_qp(3): max_send_sge",
     [](End& end) {
       end.connect();
       ibv_qp_attr attr{};
       ibv_qp_init_attr init{};
       need(ibv_query_qp(end.qp, &attr, IBV_QP_CAP, &init), "ibv_query_qp");
       const std::vector<ibv_sge> list(init.cap.max_send_sge + 1, end.sge(0, 8));
       end.sees("post", answer(end.post(Send{.list = list})), "EINVAL");
     }},
    {"a longer scatter list than granted is refused", "ibv_create_qp(3): max_recv_sge",
     [](End& end) {
       end.connect();
       ibv_qp_attr attr{};
       ibv_qp_init_attr init{};
       need(ibv_query_qp(end.qp, &attr, IBV_QP_CAP, &init), "ibv_query_qp");
       const std::vector<ibv_sge> list(init.cap.max_recv_sge + 1, end.sge(0, 8));
       end.sees("post", answer(end.post(Receive{.list = list})), "EINVAL");
     }},
    {"more inline data than granted are refused", "ibv_create_qp(3): max_inline_data",
     [](End& end) {
       end.connect();
       end.sees("post", answer(end.post(Send{.bytes = end.setup.inline_bytes + 1, .flags = kInline})), "EINVAL");
       end.sees("as many as granted",
                end.active() ? answer(end.post(Send{.bytes = end.setup.inline_bytes, .flags = kInline})) : "0", "0");
       if (end.active()) end.sees("the write", end.next(), "1 SUCCESS RDMA_WRITE");
     }},
    {"an atomic on an address that is no multiple of 8 is refused", "ibv_post_send(3); Linux rxe validate_send_wr",
     [](End& end) {
       end.connect();
       end.sees("post", answer(end.post(Send{.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .bytes = 8, .to = 4})), "EINVAL");
     }},
    {"an atomic into less than 8 bytes is refused", "ibv_post_send(3); Linux rxe validate_send_wr",
     [](End& end) {
       end.connect();
       end.sees("post", answer(end.post(Send{.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .bytes = 4})), "EINVAL");
     }},
    {"a list of sends stops at the first refused one and names it", "ibv_post_send(3): bad_wr",
     [](End& end) {
       end.connect();
       if (!end.active()) return;
       std::vector<ibv_sge> list(1000, end.sge(0, 16));
       std::array<ibv_send_wr, 4> wrs{};
       for (std::size_t at = 0; at < wrs.size(); ++at) {
         wrs[at].wr_id = at;
         wrs[at].sg_list = list.data();
         wrs[at].num_sge = 1;
         wrs[at].opcode = IBV_WR_RDMA_WRITE;
         wrs[at].send_flags = IBV_SEND_SIGNALED;
         wrs[at].wr.rdma = {.remote_addr = end.peer.address, .rkey = end.peer.rkey};
         wrs[at].next = at + 1 < wrs.size() ? &wrs[at + 1] : nullptr;
       }
       wrs[2].num_sge = static_cast<int>(list.size());
       ibv_send_wr* bad = nullptr;
       end.sees("post", answer(ibv_post_send(end.qp, wrs.data(), &bad)), "EINVAL");
       end.sees("bad_wr", bad != nullptr ? std::to_string(bad->wr_id) : "none", "2");
       end.sees("those before it", end.next(2), "0 SUCCESS RDMA_WRITE, 1 SUCCESS RDMA_WRITE");
       need(end.post(Send{.id = 9}), "ibv_post_send");
       end.sees("those behind it are not posted", end.next(), "9 SUCCESS RDMA_WRITE");
     }},
    {"a list of receives stops at the first refused one and names it", "ibv_post_recv(3): bad_wr",
     [](End& end) {
       end.connect();
       std::vector<ibv_sge> list(1000, end.sge(0, 16));
       std::array<ibv_recv_wr, 3> wrs{};
       for (std::size_t at = 0; at < wrs.size(); ++at) {
         wrs[at].wr_id = at;
         wrs[at].sg_list = list.data();
         wrs[at].num_sge = at == 1 ? static_cast<int>(list.size()) : 1;
         wrs[at].next = at + 1 < wrs.size() ? &wrs[at + 1] : nullptr;
       }
       ibv_recv_wr* bad = nullptr;
       end.sees("post", answer(ibv_post_recv(end.qp, wrs.data(), &bad)), "EINVAL");
       end.sees("bad_wr", bad != nullptr ? std::to_string(bad->wr_id) : "none", "1");
     }},
    {"a slot of the send queue is free again once its completion is polled", "ibv_post_send(3), ibv_poll_cq(3)",
     [](End& end) {
       end.connect({.send_depth = 4});
       if (!end.active()) return;
       std::string trouble = "none";
       for (int round = 0; round < 40 && trouble == "none"; ++round) {
         for (std::uint64_t id = 0; id < 3; ++id) {
           if (const int refusal = end.post(Send{.id = id, .flags = 0}); refusal != 0) trouble = answer(refusal);
         }
         if (const int refusal = end.post(Send{.id = 3}); refusal != 0) trouble = answer(refusal);
         if (trouble == "none" && end.next() != "3 SUCCESS RDMA_WRITE") trouble = "another completion";
       }
       end.sees("trouble in 40 rounds of 3 unsignalled writes and a signalled one", trouble, "none");
     }},
};

}  // namespace

std::span<const Contract> posting_contracts() { return kPostingContracts; }

}  // namespace meshbed::contract

// Objects: what can be created, and in which order it can be destroyed.

#include <cerrno>
#include <string>

#include "tests/contract/suite/suite.h"

namespace meshbed::contract {
namespace {

const Contract kObjectContracts[] = {
    {"what is in use cannot be destroyed", "ibv_dealloc_pd(3), ibv_destroy_cq(3), ibv_destroy_comp_channel(3)",
     [](End& end) {
       end.open({.channel = true});
       end.sees("PD with a region and a QP", answer(ibv_dealloc_pd(end.pd)), "EBUSY");
       end.sees("CQ with a QP", answer(ibv_destroy_cq(end.cq)), "EBUSY");
       end.sees("channel with a CQ", answer(ibv_destroy_comp_channel(end.channel)), "EBUSY");
       need(ibv_destroy_qp(end.qp), "ibv_destroy_qp");
       end.qp = nullptr;
       end.sees("PD with a region", answer(ibv_dealloc_pd(end.pd)), "EBUSY");
       end.sees("channel with a CQ", answer(ibv_destroy_comp_channel(end.channel)), "EBUSY");
     }},
    {"in the right order everything is destroyed", "ibv_destroy_qp(3), ibv_dereg_mr(3), ibv_destroy_cq(3)",
     [](End& end) {
       end.open({.channel = true});
       end.sees("QP", answer(ibv_destroy_qp(end.qp)), "0");
       end.sees("CQ", answer(ibv_destroy_cq(end.cq)), "0");
       end.sees("channel", answer(ibv_destroy_comp_channel(end.channel)), "0");
       end.sees("region", answer(ibv_dereg_mr(end.mr)), "0");
       end.sees("PD", answer(ibv_dealloc_pd(end.pd)), "0");
       end.qp = nullptr, end.cq = nullptr, end.channel = nullptr, end.mr = nullptr, end.pd = nullptr;
       end.sees("device", answer(ibv_close_device(end.context)), "0");
       end.context = nullptr;
     }},
    {"a CQ has at least as many entries as asked for", "ibv_create_cq(3)",
     [](End& end) {
       end.open_device();
       end.cq = ibv_create_cq(end.context, 100, nullptr, nullptr, 0);
       need(end.cq, "ibv_create_cq");
       end.sees("100 or more", yes_or_no(end.cq->cqe >= 100), "yes");
     }},
    {"a CQ without entries, or with more than there are, is refused", "ibv_create_cq(3)",
     [](End& end) {
       end.open_device();
       ibv_device_attr device{};
       need(ibv_query_device(end.context, &device), "ibv_query_device");
       end.sees("none", answer(ibv_create_cq(end.context, 0, nullptr, nullptr, 0)), "EINVAL");
       end.sees("one too many", answer(ibv_create_cq(end.context, device.max_cqe + 1, nullptr, nullptr, 0)), "EINVAL");
     }},
    {"a completion vector that the device does not have is refused", "ibv_create_cq(3): comp_vector",
     [](End& end) {
       end.open_device();
       end.sees("one too high", answer(ibv_create_cq(end.context, 8, nullptr, nullptr, end.context->num_comp_vectors)),
                "EINVAL");
     }},
    {"a CQ is made larger and loses nothing", "ibv_resize_cq(3)",
     [](End& end) {
       end.connect({.cqe = 16});
       end.sees("to nothing", answer(ibv_resize_cq(end.cq, 0)), "EINVAL");
       if (!end.active()) return;
       for (std::uint64_t id = 1; id <= 4; ++id) need(end.post(Send{.id = id}), "ibv_post_send");
       end.sees("before", end.next(2), "1 SUCCESS RDMA_WRITE, 2 SUCCESS RDMA_WRITE");
       end.sees("larger", answer(ibv_resize_cq(end.cq, 40)), "0");
       end.sees("40 or more", yes_or_no(end.cq->cqe >= 40), "yes");
       end.sees("after", end.next(2), "3 SUCCESS RDMA_WRITE, 4 SUCCESS RDMA_WRITE");
     }},
    {"a queue pair is granted at least what it asked for", "ibv_create_qp(3): the actual values are written",
     [](End& end) {
       end.open();
       ibv_qp_init_attr init = end.qp_init();
       init.cap = {.max_send_wr = 33, .max_recv_wr = 17, .max_send_sge = 3, .max_recv_sge = 2, .max_inline_data = 40};
       ibv_qp* qp = ibv_create_qp(end.pd, &init);
       need(qp, "ibv_create_qp");
       const ibv_qp_cap& cap = init.cap;
       end.sees("at least as much",
                yes_or_no(cap.max_send_wr >= 33 && cap.max_recv_wr >= 17 && cap.max_send_sge >= 3 &&
                          cap.max_recv_sge >= 2 && cap.max_inline_data >= 40),
                "yes");
       end.sees("destroy", answer(ibv_destroy_qp(qp)), "0");
     }},
    {"a queue pair that asks for more than there is, is refused", "ibv_create_qp(3), ibv_query_device(3)",
     [](End& end) {
       end.open();
       ibv_device_attr device{};
       need(ibv_query_device(end.context, &device), "ibv_query_device");
       const auto with = [&](auto change) {
         ibv_qp_init_attr init = end.qp_init();
         change(init.cap);
         return answer(ibv_create_qp(end.pd, &init));
       };
       end.sees("sends", with([&](ibv_qp_cap& cap) { cap.max_send_wr = static_cast<unsigned>(device.max_qp_wr) + 1; }),
                "EINVAL");
       end.sees("receives",
                with([&](ibv_qp_cap& cap) { cap.max_recv_wr = static_cast<unsigned>(device.max_qp_wr) + 1; }),
                "EINVAL");
       end.sees("gather elements",
                with([&](ibv_qp_cap& cap) { cap.max_send_sge = static_cast<unsigned>(device.max_sge) + 1; }), "EINVAL");
       end.sees("scatter elements",
                with([&](ibv_qp_cap& cap) { cap.max_recv_sge = static_cast<unsigned>(device.max_sge) + 1; }), "EINVAL");
       end.sees("inline data", with([](ibv_qp_cap& cap) { cap.max_inline_data = 1U << 20U; }), "EINVAL");
     }},
    {"a queue pair of a type that the device does not have is refused", "ibv_create_qp(3)",
     [](End& end) {
       end.open();
       ibv_qp_init_attr init = end.qp_init();
       init.qp_type = IBV_QPT_RAW_PACKET;
       end.sees("raw packets", answer(ibv_create_qp(end.pd, &init)), "EOPNOTSUPP");
     }},
    {"what the drop-in leaves out says so", "docs/limits.md: What is not; rdma-core libibverbs/dummy_ops.c: EOPNOTSUPP",
     [](End& end) {
       constexpr const char* kThere = "soft-RoCE has it (drivers/infiniband/sw/rxe); the drop-in does not yet";
       end.connect();
       ibv_srq_init_attr srq_init{};
       srq_init.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
       ibv_srq* srq = ibv_create_srq(end.pd, &srq_init);
       end.sees("a shared receive queue", answer(srq), "EOPNOTSUPP", {"object", kThere});
       if (srq != nullptr) need(ibv_destroy_srq(srq), "ibv_destroy_srq");
       ibv_qp_init_attr datagrams = end.qp_init();
       datagrams.qp_type = IBV_QPT_UD;
       ibv_qp* qp = ibv_create_qp(end.pd, &datagrams);
       end.sees("a queue pair of datagrams", answer(qp), "EOPNOTSUPP", {"object", kThere});
       if (qp != nullptr) need(ibv_destroy_qp(qp), "ibv_destroy_qp");
       ibv_mw* window = ibv_alloc_mw(end.pd, IBV_MW_TYPE_2);
       end.sees("a memory window", answer(window), "EOPNOTSUPP", {"object", kThere});
       if (window != nullptr) need(ibv_dealloc_mw(window), "ibv_dealloc_mw");
       end.sees("a drained send queue", answer(end.to_state(IBV_QPS_SQD)), "EOPNOTSUPP", {"0", kThere});
     }},
    {"two queue pairs have two numbers, of 24 bits", "ibv_create_qp(3)",
     [](End& end) {
       end.open();
       ibv_qp_init_attr init = end.qp_init();
       ibv_qp* other = ibv_create_qp(end.pd, &init);
       need(other, "ibv_create_qp");
       end.sees("different", yes_or_no(other->qp_num != end.qp->qp_num), "yes");
       end.sees("of 24 bits, and not the special ones",
                yes_or_no(other->qp_num > 1 && other->qp_num < (1U << 24U) && end.qp->qp_num > 1), "yes");
       end.sees("it knows its queues and domain",
                yes_or_no(other->send_cq == end.cq && other->recv_cq == end.cq && other->pd == end.pd &&
                          other->context == end.context && other->qp_type == IBV_QPT_RC),
                "yes");
       need(ibv_destroy_qp(other), "ibv_destroy_qp");
     }},
};

}  // namespace

std::span<const Contract> object_contracts() { return kObjectContracts; }

}  // namespace meshbed::contract

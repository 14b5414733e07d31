// Requests that fail at their own end: wrong keys, wrong bounds, no permission.

#include <string>

#include "tests/contract/suite/suite.h"

namespace meshbed::contract {
namespace {

constexpr const char* kNotFound =
    "drivers/infiniband/sw/rxe/rxe_mr.c, copy_data: -EINVAL where lookup_mr finds no region; rxe_req.c, rxe_requester, "
    "makes only of -EFAULT a protection error";
constexpr const char* kProtection = "ibv_poll_cq(3): IBV_WC_LOC_PROT_ERR";

/// The request fails here; the peer does not notice.
void fails(End& end, const Send& send, const std::string& promised, const std::string& soft_roce, const char* why) {
  if (end.active()) {
    Send request = send;
    request.id = 4;
    need(end.post(request), "ibv_post_send");
    if (soft_roce.empty()) {
      end.sees("the request", end.next(), "4 " + promised);
    } else {
      end.sees("the request", end.next(), "4 " + promised, {"4 " + soft_roce, why});
    }
    end.sees("state", end.state(), "ERR");
  }
  end.meet();
  if (!end.active()) end.sees("the peer stays connected", end.state(), "RTS");
}

const Contract kLocalErrorContracts[] = {
    {"a send with a wrong local key is a protection error", kProtection,
     [](End& end) {
       end.connect();
       fails(end, {.opcode = IBV_WR_SEND, .lkey = 0xdead00}, "LOC_PROT_ERR", "LOC_QP_OP_ERR", kNotFound);
     }},
    {"a write with a wrong local key is a protection error", kProtection,
     [](End& end) {
       end.connect();
       fails(end, {.lkey = 0xdead00}, "LOC_PROT_ERR", "LOC_QP_OP_ERR", kNotFound);
     }},
    {"a write from beyond its region is a protection error", kProtection,
     [](End& end) {
       end.connect();
       fails(end, {.from = end.memory.size() - 63}, "LOC_PROT_ERR", "", "");
     }},
    {"a write from another domain's region is a protection error", "ibv_alloc_pd(3); IBV_WC_LOC_PROT_ERR",
     [](End& end) {
       end.connect();
       ibv_pd* other = ibv_alloc_pd(end.context);
       need(other, "ibv_alloc_pd");
       ibv_mr* foreign = ibv_reg_mr(other, end.memory.data(), end.memory.size(), IBV_ACCESS_LOCAL_WRITE);
       need(foreign, "ibv_reg_mr");
       fails(end, {.lkey = foreign->lkey}, "LOC_PROT_ERR", "LOC_QP_OP_ERR", kNotFound);
       need(ibv_dereg_mr(foreign), "ibv_dereg_mr");
       need(ibv_dealloc_pd(other), "ibv_dealloc_pd");
     }},
    {"a read with a wrong local key is a protection error", kProtection,
     [](End& end) {
       end.connect();
       fails(end, {.opcode = IBV_WR_RDMA_READ, .lkey = 0xdead00}, "LOC_PROT_ERR", "", "");
     }},
    {"a read into memory that may not be written is a protection error", "ibv_reg_mr(3): IBV_ACCESS_LOCAL_WRITE",
     [](End& end) {
       end.connect({.access = IBV_ACCESS_REMOTE_READ});
       fails(end, {.opcode = IBV_WR_RDMA_READ}, "LOC_PROT_ERR", "", "");
     }},
    {"an atomic into memory that may not be written is a protection error", "ibv_reg_mr(3): IBV_ACCESS_LOCAL_WRITE",
     [](End& end) {
       end.connect();
       ibv_mr* readable = ibv_reg_mr(end.pd, end.memory.data(), 64, 0);
       need(readable, "ibv_reg_mr");
       fails(end, {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .bytes = 8, .lkey = readable->lkey}, "LOC_PROT_ERR", "", "");
       need(ibv_dereg_mr(readable), "ibv_dereg_mr");
     }},
    {"memory that may only be read can be sent", "ibv_reg_mr(3): local read access is always enabled",
     [](End& end) {
       end.connect();
       ibv_mr* readable = ibv_reg_mr(end.pd, end.memory.data(), 64, 0);
       need(readable, "ibv_reg_mr");
       if (end.active()) {
         need(end.post(Send{.lkey = readable->lkey}), "ibv_post_send");
         end.sees("the write", end.next(), "1 SUCCESS RDMA_WRITE");
       }
       need(ibv_dereg_mr(readable), "ibv_dereg_mr");
     }},
    {"an element of no bytes needs no key", "ibv_post_send(3): sg_list",
     [](End& end) {
       end.connect();
       if (!end.active()) return;
       const std::vector<ibv_sge> list{end.sge(0, 32), {0, 0, 0xdead00}, end.sge(32, 32)};
       need(end.post(Send{.list = list}), "ibv_post_send");
       end.sees("the write", end.next(), "1 SUCCESS RDMA_WRITE");
     }},
    {"a read with no read allowed outstanding is an operation error", "ibv_modify_qp(3): max_rd_atomic",
     [](End& end) {
       end.connect({.max_rd_atomic = 0});
       if (!end.active()) return;
       need(end.post(Send{.opcode = IBV_WR_RDMA_READ, .id = 4}), "ibv_post_send");
       end.sees("the read", end.silence(), "4 LOC_QP_OP_ERR",
                {"nothing", "drivers/infiniband/sw/rxe/rxe_req.c, check_init_depth: waits for ever for a read to end"});
     }},
};

}  // namespace

std::span<const Contract> local_error_contracts() { return kLocalErrorContracts; }

}  // namespace meshbed::contract

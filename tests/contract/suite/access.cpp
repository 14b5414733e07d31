// Access to the peer's memory that the peer did not allow.

#include <string>

#include "tests/contract/suite/suite.h"

namespace meshbed::contract {
namespace {

constexpr const char* kNoEvents =
    "drivers/infiniband/sw/rxe/rxe_resp.c, do_class_ac_error: goes to ERR without an event; Linux 6.1's rxe raises "
    "none "
    "of a queue pair's errors";

constexpr const char* kTakesReceiveFirst =
    "drivers/infiniband/sw/rxe/rxe_resp.c: check_resource takes the receive before check_rkey looks at the key, and "
    "do_complete ends it with the error's status";

/// The active end's request is refused: its completion, both states, the receive that the peer had posted.
void refused(End& end, const Send& send, const std::string& status) {
  if (!end.active()) need(end.post(Receive{.id = 9}), "ibv_post_recv");
  end.meet();
  if (end.active()) {
    Send request = send;
    request.id = 4;
    need(end.post(request), "ibv_post_send");
    end.sees("at the requester", end.next(), "4 " + status);
    end.sees("its state", end.state(), "ERR");
    return;
  }
  if (send.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
    end.sees("the peer's receive", end.next(), "9 WR_FLUSH_ERR", {"9 " + status, kTakesReceiveFirst});
  } else {
    end.sees("the peer's receive", end.next(), "9 WR_FLUSH_ERR");
  }
  end.sees("the peer's state", end.state(), "ERR");
}

void violates(End& end, const Send& send) { refused(end, send, "REM_ACCESS_ERR"); }
void is_invalid(End& end, const Send& send) { refused(end, send, "REM_INV_REQ_ERR"); }

constexpr const char* kAccessError = "IBV_WC_REM_ACCESS_ERR; InfiniBand Architecture, volume 1, 9.9.3: class C";
constexpr const char* kInvalidRequest = "IBV_WC_REM_INV_REQ_ERR; InfiniBand Architecture, volume 1, 9.9.3: class C";
constexpr const char* kPermission = "ibv_reg_mr(3): access; IBV_WC_REM_ACCESS_ERR";
constexpr const char* kQueuePairPermission = "ibv_modify_qp(3): qp_access_flags; InfiniBand Architecture, 9.9.3";

const Contract kAccessContracts[] = {
    {"a write with a key that is none is a remote access error", kAccessError,
     [](End& end) {
       end.connect();
       violates(end, {.rkey = 0xdead00});
     }},
    {"a read with a key that is none is a remote access error", kAccessError,
     [](End& end) {
       end.connect();
       violates(end, {.opcode = IBV_WR_RDMA_READ, .rkey = 0xdead00});
     }},
    {"an atomic with a key that is none is a remote access error", kAccessError,
     [](End& end) {
       end.connect();
       violates(end, {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .bytes = 8, .rkey = 0xdead00});
     }},
    {"a write with immediate and a key that is none is a remote access error", kAccessError,
     [](End& end) {
       end.connect();
       violates(end, {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .rkey = 0xdead00});
     }},
    {"a write past the region's end is a remote access error", kAccessError,
     [](End& end) {
       end.connect();
       violates(end, {.bytes = 64, .to = end.memory.size() - 63});
     }},
    {"a read before the region's begin is a remote access error", kAccessError,
     [](End& end) {
       end.connect();
       violates(end, {.opcode = IBV_WR_RDMA_READ, .to = static_cast<std::size_t>(0) - 8});
     }},
    {"a write to the region's last byte is allowed", "ibv_reg_mr(3)",
     [](End& end) {
       end.connect();
       if (!end.active()) return;
       need(end.post(Send{.bytes = 64, .to = end.memory.size() - 64}), "ibv_post_send");
       end.sees("the write", end.next(), "1 SUCCESS RDMA_WRITE");
     }},
    {"a write to a region without remote write is a remote access error", kPermission,
     [](End& end) {
       end.connect({.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ});
       violates(end, {});
     }},
    {"a read of a region without remote read is a remote access error", kPermission,
     [](End& end) {
       end.connect({.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE});
       violates(end, {.opcode = IBV_WR_RDMA_READ});
     }},
    {"an atomic on a region without remote atomics is a remote access error", kPermission,
     [](End& end) {
       end.connect({.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE});
       violates(end, {.opcode = IBV_WR_ATOMIC_CMP_AND_SWP, .bytes = 8});
     }},
    {"a write to a queue pair without remote write is an invalid request", kQueuePairPermission,
     [](End& end) {
       end.connect({.qp_access = IBV_ACCESS_REMOTE_READ});
       is_invalid(end, {});
     }},
    {"a read from a queue pair without remote read is an invalid request", kQueuePairPermission,
     [](End& end) {
       end.connect({.qp_access = IBV_ACCESS_REMOTE_WRITE});
       is_invalid(end, {.opcode = IBV_WR_RDMA_READ});
     }},
    {"an atomic on a queue pair without remote atomics is an invalid request", kQueuePairPermission,
     [](End& end) {
       end.connect({.qp_access = IBV_ACCESS_REMOTE_WRITE});
       is_invalid(end, {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .bytes = 8});
     }},
    {"a read from a queue pair without responder resources is an invalid request", kInvalidRequest,
     [](End& end) {
       end.connect({.max_dest_rd_atomic = 0});
       is_invalid(end, {.opcode = IBV_WR_RDMA_READ});
     }},
    {"the peer gets an event of an access that it did not allow", "ibv_get_async_event(3): IBV_EVENT_QP_ACCESS_ERR",
     [](End& end) {
       end.connect();
       violates(end, {.rkey = 0xdead00});
       if (!end.active()) end.sees("event", end.no_event(), "QP_ACCESS_ERR own QP", {"nothing", kNoEvents});
     }},
    {"the peer gets an event of an invalid request", "ibv_get_async_event(3): IBV_EVENT_QP_REQ_ERR",
     [](End& end) {
       end.connect({.qp_access = IBV_ACCESS_REMOTE_READ});
       is_invalid(end, {});
       if (!end.active()) end.sees("event", end.no_event(), "QP_REQ_ERR own QP", {"nothing", kNoEvents});
     }},
    {"a region of another domain is not there for this connection", "ibv_alloc_pd(3); IBV_WC_REM_ACCESS_ERR",
     [](End& end) {
       end.connect();
       ibv_pd* other = ibv_alloc_pd(end.context);
       need(other, "ibv_alloc_pd");
       ibv_mr* foreign = ibv_reg_mr(other, end.memory.data(), end.memory.size(), static_cast<int>(kAllAccess));
       need(foreign, "ibv_reg_mr");
       const std::uint32_t rkey = end.handshake().swap(foreign->rkey);
       violates(end, {.rkey = rkey});
       need(ibv_dereg_mr(foreign), "ibv_dereg_mr");
       need(ibv_dealloc_pd(other), "ibv_dealloc_pd");
     }},
    {"a key is dead once its region is deregistered", "ibv_dereg_mr(3)",
     [](End& end) {
       end.connect();
       ibv_mr* short_lived = ibv_reg_mr(end.pd, end.memory.data(), end.memory.size(), static_cast<int>(kAllAccess));
       need(short_lived, "ibv_reg_mr");
       const std::uint32_t rkey = end.handshake().swap(short_lived->rkey);
       if (end.active()) {
         need(end.post(Send{.rkey = rkey}), "ibv_post_send");
         end.sees("while it lives", end.next(), "1 SUCCESS RDMA_WRITE");
       }
       end.meet();
       need(ibv_dereg_mr(short_lived), "ibv_dereg_mr");
       violates(end, {.rkey = rkey});
     }},
};

}  // namespace

std::span<const Contract> access_contracts() { return kAccessContracts; }

}  // namespace meshbed::contract

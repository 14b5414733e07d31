// Posting: the hot path. A work request becomes a back-end record on the stack; only what its opcode uses is filled in.

#include <cstring>

#include "sim/verbs/dropin/objects.h"
#include "sim/verbs/dropin/table.h"

namespace meshbed::dropin {
namespace {

static_assert(sizeof(sim::BackendSge) == sizeof(ibv_sge) &&
              offsetof(sim::BackendSge, length) == offsetof(ibv_sge, length) &&
              offsetof(sim::BackendSge, lkey) == offsetof(ibv_sge, lkey));

/// The scatter list as it stands; false where it is longer than any queue pair takes.
bool copy_sges(const ibv_sge* list, int count, sim::BackendSge* out) {
  if (count < 0 || count > sim::kBackendMaxSge) return false;
  if (count == 1) {
    *out = {list->addr, list->length, list->lkey};
  } else if (count > 1) {
    std::memcpy(out, list, static_cast<std::size_t>(count) * sizeof(ibv_sge));
  }
  return true;
}

struct InlineBuffer {
  char bytes[sim::kBackendMaxInline];
};

/// Points `record` at the inline data: in place where they are one piece, gathered in `buffer` otherwise.
bool take_inline(const ibv_send_wr& wr, sim::BackendSendWr& record, InlineBuffer& buffer) {
  record.sge_count = 0;
  record.inline_bytes = 0;
  record.inline_data = buffer.bytes;
  if (wr.num_sge < 0) return false;
  if (wr.num_sge == 1) {
    record.inline_bytes = wr.sg_list->length;
    record.inline_data = reinterpret_cast<const void*>(wr.sg_list->addr);
    return record.inline_bytes <= sim::kBackendMaxInline;
  }
  for (int index = 0; index < wr.num_sge; ++index) {
    const ibv_sge& sge = wr.sg_list[index];
    if (sge.length > sim::kBackendMaxInline - record.inline_bytes) return false;
    std::memcpy(buffer.bytes + record.inline_bytes, reinterpret_cast<const void*>(sge.addr), sge.length);
    record.inline_bytes += sge.length;
  }
  return true;
}

/// 0, or the errno value of a request that no queue pair takes.
int fill(const ibv_send_wr& wr, sim::BackendSendWr& record, InlineBuffer& buffer) {
  record.wr_id = wr.wr_id;
  record.opcode = static_cast<std::uint32_t>(wr.opcode);
  record.send_flags = wr.send_flags;
  record.imm_data = wr.imm_data;
  if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    record.remote_address = wr.wr.atomic.remote_addr;
    record.compare_add = wr.wr.atomic.compare_add;
    record.swap = wr.wr.atomic.swap;
    record.rkey = wr.wr.atomic.rkey;
  } else {
    record.remote_address = wr.wr.rdma.remote_addr;
    record.rkey = wr.wr.rdma.rkey;
    record.compare_add = 0;
    record.swap = 0;
  }
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) return take_inline(wr, record, buffer) ? 0 : EINVAL;
  record.inline_bytes = 0;
  record.inline_data = nullptr;
  record.sge_count = static_cast<std::uint32_t>(wr.num_sge);
  return copy_sges(wr.sg_list, wr.num_sge, record.sge) ? 0 : EINVAL;
}

}  // namespace

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad_wr) {
  sim::BackendSendWr record;
  InlineBuffer buffer;
  for (; wr != nullptr; wr = wr->next) {
    int error = fill(*wr, record, buffer);
    if (error == 0) error = backend().post_send(qp->qp_num, &record);
    if (error != 0) {
      *bad_wr = wr;
      return error;
    }
  }
  return 0;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
  sim::BackendRecvWr record;
  for (; wr != nullptr; wr = wr->next) {
    record.wr_id = wr->wr_id;
    record.sge_count = static_cast<std::uint32_t>(wr->num_sge);
    int error = copy_sges(wr->sg_list, wr->num_sge, record.sge) ? 0 : EINVAL;
    if (error == 0) error = backend().post_recv(qp->qp_num, &record);
    if (error != 0) {
      *bad_wr = wr;
      return error;
    }
  }
  return 0;
}

}  // namespace meshbed::dropin

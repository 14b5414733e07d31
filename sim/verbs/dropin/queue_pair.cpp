// Queue pairs: ibv_create_qp(3), ibv_modify_qp(3), ibv_query_qp(3), ibv_query_qp_data_in_order(3).

#include <algorithm>

#include "sim/verbs/dropin/objects.h"
#include "sim/verbs/dropin/table.h"

namespace meshbed::dropin {
namespace {

ibv_qp* create(ibv_pd* pd, ibv_qp_init_attr& attr) {
  if (attr.send_cq == nullptr || attr.recv_cq == nullptr) return null_with<ibv_qp>(EINVAL);
  sim::BackendQpInit init{.qp_type = static_cast<std::uint32_t>(attr.qp_type),
                          .send_cq = attr.send_cq->handle,
                          .recv_cq = attr.recv_cq->handle,
                          .pd = pd->handle,
                          .srq = attr.srq != nullptr ? attr.srq->handle : 0,
                          .signal_all = attr.sq_sig_all != 0,
                          .cap = attr.cap};
  std::uint32_t number = 0;
  if (const int error = backend().create_qp(&init, &number)) return null_with<ibv_qp>(error);
  attr.cap = init.cap;
  auto* pair = new QueuePair;
  pair->signal_all = init.signal_all;
  pair->base.context = pd->context;
  pair->base.qp_context = attr.qp_context;
  pair->base.pd = pd;
  pair->base.send_cq = attr.send_cq;
  pair->base.recv_cq = attr.recv_cq;
  pair->base.handle = number;
  pair->base.qp_num = number;
  pair->base.state = IBV_QPS_RESET;
  pair->base.qp_type = attr.qp_type;
  context_of(pd->context).queue_pairs.push_back(pair);
  return &pair->base;
}

}  // namespace

// Only the features of ibv_create_qp are supported: a protection domain, no creation flags, no extended send
// operations.
ibv_qp* create_qp_ex(ibv_context*, ibv_qp_init_attr_ex* attr) {
  constexpr std::uint32_t kHarmless = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  const bool flags = (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && attr->create_flags != 0;
  if ((attr->comp_mask & ~kHarmless) != 0 || flags) {
    static std::atomic_flag told;
    tell_unsupported("ibv_create_qp_ex with more than a protection domain", told);
    return null_with<ibv_qp>(EOPNOTSUPP);
  }
  if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) == 0) return null_with<ibv_qp>(EINVAL);
  // The extended struct begins with the members of the plain one, and rdma-core relies on it in the same way.
  return create(attr->pd, *reinterpret_cast<ibv_qp_init_attr*>(attr));
}

}  // namespace meshbed::dropin

using namespace meshbed::dropin;

MESHBED_VERB ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) { return create(pd, *attr); }

MESHBED_VERB int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  if (const int error = backend().modify_qp(qp->qp_num, attr, mask)) return error;
  if ((mask & IBV_QP_STATE) != 0) qp->state = attr->qp_state;
  return 0;
}

MESHBED_VERB int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int, ibv_qp_init_attr* init) {
  *attr = {};
  *init = {};
  if (const int error = backend().query_qp(qp->qp_num, attr, init)) return error;
  init->qp_context = qp->qp_context;
  init->send_cq = qp->send_cq;
  init->recv_cq = qp->recv_cq;
  init->srq = qp->srq;
  init->qp_type = qp->qp_type;
  init->sq_sig_all = pair_of(qp).signal_all ? 1 : 0;
  qp->state = attr->qp_state;
  return 0;
}

// A message's bytes become visible all at once, which is in order.
MESHBED_VERB int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode opcode, std::uint32_t flags) {
  if (flags != 0) return 0;
  return opcode <= IBV_WR_RDMA_READ ? 1 : 0;  // writes, sends and reads are the first five
}

// None was created with extended send operations: ibv_wr_post(3) asks for NULL then.
MESHBED_VERB ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp*) { return nullptr; }

MESHBED_VERB int ibv_destroy_qp(ibv_qp* qp) {
  QueuePair& pair = pair_of(qp);
  if (pair.async_events != qp->events_completed) return EBUSY;  // rdma-core waits here, see completion.cpp
  if (const int error = backend().destroy_qp(qp->qp_num)) return error;
  std::erase(context_of(qp->context).queue_pairs, &pair);
  delete &pair;
  return 0;
}

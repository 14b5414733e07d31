// ibv_modify_qp(3): the state machine of a reliable connection.
//
// Required attributes are the man page's table; optional ones are Linux's (ib_modify_qp_is_ok, drivers/infiniband/core/
// verbs.c), less what this device does not have: alternate paths, send queue drain, resizing. If anything is invalid,
// nothing is modified.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "sim/verbs/psn.h"
#include "sim/verbs/system.h"

namespace meshbed::sim::verbs {
namespace {

struct Transition {
  ibv_qp_state from, to;
  int required, optional;
};

constexpr int kInit = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr std::array kTransitions{
    Transition{IBV_QPS_RESET, IBV_QPS_INIT, kInit, 0}, Transition{IBV_QPS_INIT, IBV_QPS_INIT, 0, kInit},
    Transition{IBV_QPS_INIT, IBV_QPS_RTR,
               IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                   IBV_QP_MIN_RNR_TIMER,
               IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    Transition{IBV_QPS_RTR, IBV_QPS_RTS,
               IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT,
               IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    Transition{IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER}};

constexpr int kAbsent =
    IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY | IBV_QP_CAP | IBV_QP_RATE_LIMIT;
constexpr unsigned kAccessFlags =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr std::uint8_t kFiveBits = 31, kThreeBits = 7;

/// 0 where the transition exists and its mask is right.
int check_mask(System& system, ibv_qp_state from, ibv_qp_state to, int mask) {
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) {
    const bool exists = from != IBV_QPS_RESET || to == IBV_QPS_RESET;  // an error is no way out of RESET
    return exists && mask == IBV_QP_STATE ? 0 : EINVAL;
  }
  if (to == IBV_QPS_SQD || to == IBV_QPS_SQE) {
    return refuse(system, to == IBV_QPS_SQD ? "ibv_modify_qp to IBV_QPS_SQD" : "ibv_modify_qp to IBV_QPS_SQE");
  }
  if ((mask & kAbsent) != 0) return refuse(system, fmt::format("ibv_modify_qp with mask {:#x}", mask & kAbsent));
  const auto found = std::find_if(kTransitions.begin(), kTransitions.end(), [&](const Transition& transition) {
    return transition.from == from && transition.to == to;
  });
  if (found == kTransitions.end() || (mask & found->required) != found->required) return EINVAL;
  return (mask & ~(found->required | found->optional | IBV_QP_STATE)) == 0 ? 0 : EINVAL;
}

/// 0 where every attribute in the mask has a value that this port takes.
int check_values(const models::Nic& nic, const ibv_qp_attr& attr, int mask) {
  const auto has = [mask](int attribute) { return (mask & attribute) != 0; };
  if (has(IBV_QP_PORT) && attr.port_num != nic.port) return EINVAL;
  if (has(IBV_QP_PKEY_INDEX) && attr.pkey_index != 0) return EINVAL;  // one partition key
  if (has(IBV_QP_ACCESS_FLAGS) && (attr.qp_access_flags & ~kAccessFlags) != 0) return EINVAL;
  if (has(IBV_QP_PATH_MTU) && (attr.path_mtu < IBV_MTU_256 || attr.path_mtu > active_mtu(nic))) return EINVAL;
  if (has(IBV_QP_DEST_QPN) && attr.dest_qp_num > kLastQueuePair) return EINVAL;
  if (has(IBV_QP_MAX_QP_RD_ATOMIC) && attr.max_rd_atomic > kReadAtomicMax) return EINVAL;
  if (has(IBV_QP_MAX_DEST_RD_ATOMIC) && attr.max_dest_rd_atomic > kReadAtomicMax) return EINVAL;
  if (has(IBV_QP_MIN_RNR_TIMER) && attr.min_rnr_timer > kFiveBits) return EINVAL;
  if (has(IBV_QP_TIMEOUT) && attr.timeout > kFiveBits) return EINVAL;
  if (has(IBV_QP_RETRY_CNT) && attr.retry_cnt > kThreeBits) return EINVAL;
  if (has(IBV_QP_RNR_RETRY) && attr.rnr_retry > kThreeBits) return EINVAL;
  // RoCE addresses are GIDs (IBV_QPF_GRH_REQUIRED), and the kernel checks the address vector's own port number.
  if (has(IBV_QP_AV) && (attr.ah_attr.is_global == 0 || attr.ah_attr.port_num != nic.port)) return EINVAL;
  return 0;
}

void take_values(QueuePair& qp, const ibv_qp_attr& attr, int mask) {
  const auto has = [mask](int attribute) { return (mask & attribute) != 0; };
  if (has(IBV_QP_PORT)) qp.attr.port_num = attr.port_num;
  if (has(IBV_QP_PKEY_INDEX)) qp.attr.pkey_index = attr.pkey_index;
  if (has(IBV_QP_ACCESS_FLAGS)) qp.attr.qp_access_flags = attr.qp_access_flags;
  if (has(IBV_QP_AV)) qp.attr.ah_attr = attr.ah_attr;
  if (has(IBV_QP_PATH_MTU)) qp.attr.path_mtu = attr.path_mtu;
  if (has(IBV_QP_DEST_QPN)) qp.attr.dest_qp_num = attr.dest_qp_num, qp.answered_rank = -1;
  if (has(IBV_QP_RQ_PSN)) qp.expected_psn = qp.attr.rq_psn = attr.rq_psn & kPsnMask;
  if (has(IBV_QP_MAX_DEST_RD_ATOMIC)) qp.attr.max_dest_rd_atomic = attr.max_dest_rd_atomic;
  if (has(IBV_QP_MIN_RNR_TIMER)) qp.attr.min_rnr_timer = attr.min_rnr_timer;
  if (has(IBV_QP_SQ_PSN)) qp.send_psn = qp.attr.sq_psn = attr.sq_psn & kPsnMask;
  if (has(IBV_QP_MAX_QP_RD_ATOMIC)) qp.attr.max_rd_atomic = attr.max_rd_atomic;
  if (has(IBV_QP_TIMEOUT)) qp.attr.timeout = attr.timeout;
  if (has(IBV_QP_RETRY_CNT)) qp.retries_left = qp.attr.retry_cnt = attr.retry_cnt;
  if (has(IBV_QP_RNR_RETRY)) qp.rnr_retries_left = qp.attr.rnr_retry = attr.rnr_retry;
}

}  // namespace

int modify_qp(System& system, Process& process, std::uint32_t number, const ibv_qp_attr& attr, int mask) {
  const auto find_own = [&]() -> QueuePair* {
    QueuePair* found = system.queue_pairs.find(number);
    return found != nullptr && found->context->process == &process ? found : nullptr;
  };
  QueuePair* qp = find_own();
  if (qp == nullptr) return EINVAL;
  const ibv_qp_state from = qp->state;
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attr.qp_state : from;
  if ((mask & IBV_QP_CUR_STATE) != 0 && attr.cur_qp_state != from) return EINVAL;
  if (const int error = check_mask(system, from, to, mask)) return error;
  if (const int error = check_values(nic_of(system, qp->context->port), attr, mask)) return error;
  PairRoute route = qp->route;
  if (to == IBV_QPS_RTR) {
    if (const int error = resolve_route(system, *qp, attr, route)) return error;
    qp = find_own();  // time has passed: another thread may have destroyed or moved it
    if (qp == nullptr || qp->state != from) return EINVAL;
  }
  if (to == IBV_QPS_ERR) {
    drop_responses(system, *qp);
    enter_error(system, *qp);
  } else if (to == IBV_QPS_RESET) {
    reset(system, *qp);
  } else {
    take_values(*qp, attr, mask);
    qp->route = route;
    qp->state = to;
  }
  return 0;
}

}  // namespace meshbed::sim::verbs

#include "plugin/verbs/queue_pair.h"

#include <cerrno>
#include <cstring>

namespace meshbed::verbs {
namespace {

/// ibv_modify_qp returns an errno value; old providers return -1 and set errno.
int modify(ibv_qp* pair, ibv_qp_attr& attr, int mask) {
  const int error = ibv_modify_qp(pair, &attr, mask);
  return error < 0 ? errno : error;
}

Error step_error(const std::string& device, const char* step, const std::string& remote, int error_number) {
  std::string text = "queue pair on " + device + " cannot go to " + step;
  if (!remote.empty()) text += " towards GID " + remote;
  text += ": " + std::string(std::strerror(error_number)) + " (errno " + std::to_string(error_number) + ")";
  switch (error_number) {
    case ETIMEDOUT:
      text += "; this address does not resolve on this port's subnet: check which port the cable is in";
      break;
    case ENETUNREACH:
    case EHOSTUNREACH:
      text += "; the port's subnet does not reach it, or the link is down";
      break;
    default:
      break;
  }
  return {.code = ErrorCode::kSystem, .scope = Scope::kQueuePair, .text = std::move(text), .os_errno = error_number};
}

}  // namespace

Result<QueuePair> QueuePair::create(const Device& device, const CompletionQueue& queue, const QueuePairPort& port,
                                    const QueuePairDepths& depths) {
  ibv_qp_init_attr init{};
  init.send_cq = queue.raw();
  init.recv_cq = queue.raw();
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = depths.sends;
  init.cap.max_recv_wr = depths.receives;
  init.cap.max_send_sge = depths.send_pieces;
  init.cap.max_recv_sge = 1;
  init.cap.max_inline_data = depths.inline_bytes;
  QueuePair pair;
  pair.device_ = device.name();
  pair.pair_.reset(ibv_create_qp(device.pd(), &init));
  if (!pair.pair_) {
    return Error{.code = ErrorCode::kSystem,
                 .scope = Scope::kQueuePair,
                 .text = "cannot create a queue pair on " + device.name() + ": " + std::strerror(errno),
                 .os_errno = errno};
  }
  // Providers grant more than was requested; a request for none must stay none.
  pair.inline_bytes_ = depths.inline_bytes > 0 ? init.cap.max_inline_data : 0;
  if (auto step = pair.to_init(port); !step) return step.error();
  return pair;
}

Result<void> QueuePair::to_init(const QueuePairPort& port) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.pkey_index = port.pkey_index;
  attr.port_num = port.number;
  attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  if (const int code = modify(raw(), attr, mask)) {
    Error error = step_error(device_, "INIT", "", code);
    if (port.pkey_index != 0) {
      error.text +=
          "; does the port have a partition key at index " + std::to_string(port.pkey_index) + " (NCCL_IB_PKEY)?";
    }
    return error;
  }
  return ok();
}

Result<void> QueuePair::connect(const QueuePairPath& path) {
  if (auto step = to_ready_to_receive(path); !step) return step;
  return to_ready_to_send(path);
}

Result<void> QueuePair::to_ready_to_receive(const QueuePairPath& path) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = static_cast<ibv_mtu>(path.mtu);
  attr.dest_qp_num = path.remote_qp_number;
  attr.rq_psn = path.remote_psn;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 12;  // 0.64 ms; cannot happen, since a clear-to-send follows its receive
  attr.ah_attr.is_global = 1;
  std::memcpy(attr.ah_attr.grh.dgid.raw, path.remote_gid.data(), path.remote_gid.size());
  attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(path.local_gid_index);
  attr.ah_attr.grh.hop_limit = 255;  // as NCCL (ncclIbRtrQp, src/transport/net_ib); Linux puts in the route's own
  attr.ah_attr.grh.traffic_class = path.traffic_class;
  attr.ah_attr.sl = path.service_level;
  attr.ah_attr.port_num = path.local_port;
  const int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (const int error = modify(raw(), attr, mask)) {
    return step_error(device_, "ready-to-receive", to_text(path.remote_gid), error);
  }
  return ok();
}

Result<void> QueuePair::to_ready_to_send(const QueuePairPath& path) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = path.timeout;
  attr.retry_cnt = path.retries;
  attr.rnr_retry = path.rnr_retries;
  attr.sq_psn = path.local_psn;
  attr.max_rd_atomic = 1;
  const int mask =
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  if (const int error = modify(raw(), attr, mask)) {
    return step_error(device_, "ready-to-send", to_text(path.remote_gid), error);
  }
  return ok();
}

void QueuePair::abort() {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  // Allowed from every state; a device that is gone has nothing left to flush.
  modify(raw(), attr, IBV_QP_STATE);
}

}  // namespace meshbed::verbs

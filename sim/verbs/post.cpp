// Posting work requests: what ibv_post_send(3) and ibv_post_recv(3) refuse at once, and the rest into the queues.
// Wrong local keys are not looked at here: devices find them when they execute the request.

#include <algorithm>
#include <cerrno>

#include "sim/verbs/psn.h"
#include "sim/verbs/system.h"

namespace meshbed::sim::verbs {
namespace {

constexpr std::uint32_t kAtomicBytes = 8;

constexpr bool supported(std::uint32_t opcode) { return opcode <= IBV_WR_ATOMIC_FETCH_AND_ADD; }

std::uint64_t payload_of(const BackendSendWr& wr) {
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) return wr.inline_bytes;
  std::uint64_t bytes = 0;
  for (std::uint32_t index = 0; index < wr.sge_count; ++index) bytes += wr.sge[index].length;
  return bytes;
}

/// As Linux checks a send work request (rxe's validate_send_wr; mlx5 agrees for these): EINVAL before anything is
/// queued.
bool valid(const QueuePair& qp, const BackendSendWr& wr, std::uint64_t payload_bytes) {
  if (wr.sge_count > qp.cap.max_send_sge) return false;
  const bool is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
  if (is_inline && (has_response(wr.opcode) || wr.inline_bytes > qp.cap.max_inline_data)) return false;
  if (is_atomic(wr.opcode)) {
    return payload_bytes == kAtomicBytes && wr.remote_address % kAtomicBytes == 0;
  }
  return true;
}

Block* keep(System& system, const BackendSge* sges, std::uint32_t count) {
  Block* block = system.blocks.take();
  std::copy_n(sges, count, block->sges);
  return block;
}

}  // namespace

int post_send(System& system, QueuePair& qp, const BackendSendWr& wr) {
  if (qp.state != IBV_QPS_RTS && qp.state != IBV_QPS_ERR) return EINVAL;
  if (!supported(wr.opcode)) return refuse(system, "ibv_post_send with opcode " + std::to_string(wr.opcode));
  const std::uint64_t payload_bytes = payload_of(wr);
  if (!valid(qp, wr, payload_bytes)) return EINVAL;
  if (qp.send.end() - qp.send_reclaimed >= qp.cap.max_send_wr) return ENOMEM;

  SendEntry entry;
  entry.wr_id = wr.wr_id;
  entry.remote_address = wr.remote_address;
  entry.compare_add = wr.compare_add;
  entry.swap = wr.swap;
  entry.block = nullptr;
  if (wr.inline_bytes > 0) {
    entry.block = system.blocks.take();
    std::copy_n(static_cast<const char*>(wr.inline_data), wr.inline_bytes, entry.block->bytes);
  } else if (wr.sge_count == 1) {
    entry.sge = wr.sge[0];
  } else if (wr.sge_count > 1) {
    entry.block = keep(system, wr.sge, wr.sge_count);
  }
  entry.payload_bytes = payload_bytes;
  entry.wire_bytes = request_wire_bytes(qp, wr.opcode, payload_bytes);
  entry.posted_ps = system.world.now();
  entry.post_number = system.next_post++;
  entry.started_ps = entry.delivered_ps = -1;
  entry.rkey = wr.rkey;
  entry.imm_data = wr.imm_data;
  entry.first_psn = qp.send_psn;
  entry.packet_count = packets_of(qp, wr.opcode, payload_bytes);
  entry.tries = entry.deliveries = entry.resume = 0;
  entry.status = IBV_WC_SUCCESS;
  entry.opcode = static_cast<std::uint8_t>(wr.opcode);
  entry.send_flags = static_cast<std::uint8_t>(wr.send_flags);
  entry.sge_count = static_cast<std::uint8_t>(wr.sge_count);
  entry.sent = entry.counted = entry.responding = entry.done = false;
  qp.send_psn = psn_add(qp.send_psn, entry.packet_count);
  qp.send.push(entry);
  ++system.counters.in_flight;
  system.counters.payload_bytes += payload_bytes;
  system.world.note_activity();
  if (qp.state == IBV_QPS_ERR) {
    finish_send(system, qp, IBV_WC_WR_FLUSH_ERR);
  } else {
    pump(system, qp);
  }
  return 0;
}

int post_recv(System& system, QueuePair& qp, const BackendRecvWr& wr) {
  if (qp.state == IBV_QPS_RESET) return EINVAL;
  if (wr.sge_count > qp.cap.max_recv_sge) return EINVAL;
  if (qp.recv.end() - qp.recv_reclaimed >= qp.cap.max_recv_wr) return ENOMEM;
  RecvEntry entry;
  entry.wr_id = wr.wr_id;
  entry.sge_count = wr.sge_count;
  entry.block = nullptr;
  if (wr.sge_count == 1) {
    entry.sge = wr.sge[0];
  } else if (wr.sge_count > 1) {
    entry.block = keep(system, wr.sge, wr.sge_count);
  }
  qp.recv.push(entry);
  system.world.note_activity();
  if (qp.state == IBV_QPS_ERR) finish_recv(system, qp, wc_with(IBV_WC_WR_FLUSH_ERR), false);
  return 0;
}

}  // namespace meshbed::sim::verbs

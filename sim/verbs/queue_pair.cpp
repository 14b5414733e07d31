// Queue pairs from creation to destruction, and how their work requests end.

#include "sim/verbs/queue_pair.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "sim/verbs/system.h"
#include "sim/verbs/transport.h"

namespace meshbed::sim::verbs {
namespace {

ibv_wc_opcode completion_opcode(unsigned opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return IBV_WC_FETCH_ADD;
    default:
      return IBV_WC_SEND;
  }
}

void record(System& system, const QueuePair& qp, const SendEntry& entry, ibv_wc_status status) {
  const QueuePair* peer = system.queue_pairs.find(qp.attr.dest_qp_num);
  MessageRecord record;
  record.posted_ps = entry.posted_ps;
  record.started_ps = entry.started_ps;
  record.delivered_ps = entry.delivered_ps;
  record.completed_ps = status == IBV_WC_SUCCESS ? system.world.now() : -1;
  record.payload_bytes = entry.payload_bytes;
  record.wire_bytes = entry.wire_bytes;
  record.sequence = qp.send.begin();
  record.source_rank = qp.context->process->rank;
  record.destination_rank = peer != nullptr ? peer->context->process->rank : qp.answered_rank;
  record.source = qp.context->port;
  record.destination = qp.route.peer;
  record.source_gid = qp.route.source_gid;
  record.destination_gid = qp.route.destination_gid;
  record.source_qp = qp.number;
  record.destination_qp = qp.attr.dest_qp_num;
  record.opcode = entry.opcode;
  record.status = status;
  record.tries = entry.tries;
  record.deliveries = entry.deliveries;
  record.immediate = has_imm(entry.opcode) ? ntohl(entry.imm_data) : 0;
  record.flow = qp.route.flow;
  record.post_number = entry.post_number;
  record.reads_most = qp.attr.max_rd_atomic;
  record.is_fenced = (entry.send_flags & IBV_SEND_FENCE) != 0;
  if (has_response(entry.opcode) && peer != nullptr) record.response_wire_bytes = response_wire_bytes(*peer, entry);
  system.sink->message(record);
}

/// Takes the oldest send request off the queue, without a completion.
void drop_send(System& system, QueuePair& qp, ibv_wc_status status) {
  SendEntry& entry = qp.send.front();
  if (system.sink != nullptr) record(system, qp, entry, status);
  ++system.counters.messages;
  --system.counters.in_flight;
  uncount(qp, entry);
  if (entry.block != nullptr) system.blocks.give(entry.block);
  qp.send.pop();
  qp.next = std::max(qp.next, qp.send.begin());
}

void drop_recv(System& system, QueuePair& qp) {
  if (Block* block = qp.recv.front().block) system.blocks.give(block);
  qp.recv.pop();
}

/// Stops the timers of this queue pair's requester.
void stop(QueuePair& qp) {
  qp.timer_ps = -1;
  qp.rnr_until_ps = -1;
  ++qp.round;
}

}  // namespace

int create_qp(System& system, Context& context, ProtectionDomain& domain, BackendQpInit& init, std::uint32_t& number) {
  if (init.qp_type != IBV_QPT_RC) {
    return refuse(system, "ibv_create_qp with type " + std::to_string(init.qp_type) + " (not IBV_QPT_RC)");
  }
  if (init.srq != 0) return refuse(system, "ibv_create_qp with a shared receive queue");
  CompletionQueue* send_cq = system.completion_queues.find(init.send_cq);
  CompletionQueue* recv_cq = system.completion_queues.find(init.recv_cq);
  if (send_cq == nullptr || recv_cq == nullptr) return EINVAL;
  if (send_cq->context != &context || recv_cq->context != &context || domain.context != &context) return EINVAL;
  const ibv_qp_cap& cap = init.cap;
  if (cap.max_send_wr > kWorkRequestsMax || cap.max_recv_wr > kWorkRequestsMax || cap.max_send_sge > kBackendMaxSge ||
      cap.max_recv_sge > kBackendMaxSge || cap.max_inline_data > kBackendMaxInline) {
    return EINVAL;
  }
  if (system.queue_pairs.next() > kLastQueuePair) return ENOMEM;
  number = system.queue_pairs.next();
  QueuePair& qp = system.queue_pairs.add(std::make_unique<QueuePair>());
  qp.number = number;
  qp.context = &context;
  qp.domain = &domain;
  qp.send_cq = send_cq;
  qp.recv_cq = recv_cq;
  qp.signal_all = init.signal_all;
  qp.cap = cap;
  ++domain.users;
  ++send_cq->users;
  ++recv_cq->users;
  return 0;
}

int query_qp(const QueuePair& qp, ibv_qp_attr& attr, ibv_qp_init_attr& init) {
  attr = qp.attr;
  attr.qp_state = attr.cur_qp_state = qp.state;
  attr.path_mig_state = IBV_MIG_MIGRATED;
  attr.sq_psn = qp.send_psn;
  attr.rq_psn = qp.expected_psn;
  attr.cap = init.cap = qp.cap;
  return 0;
}

int destroy_qp(System& system, QueuePair& qp) {
  reset(system, qp);
  forget_events(system, *qp.context, false, qp.number);
  --qp.domain->users;
  --qp.send_cq->users;
  --qp.recv_cq->users;
  system.queue_pairs.remove(qp.number);
  return 0;
}

void finish_send(System& system, QueuePair& qp, ibv_wc_status status) {
  const SendEntry& entry = qp.send.front();
  if (status != IBV_WC_SUCCESS || qp.signal_all || (entry.send_flags & IBV_SEND_SIGNALED) != 0) {
    ibv_wc wc = wc_with(status);
    wc.wr_id = entry.wr_id;
    wc.qp_num = qp.number;
    if (status == IBV_WC_SUCCESS) {
      wc.opcode = completion_opcode(entry.opcode);
      wc.byte_len = static_cast<std::uint32_t>(entry.payload_bytes);
    }
    complete(system, *qp.send_cq, {.wc = wc, .sequence = qp.send.begin(), .send = true, .solicited = false});
  }
  drop_send(system, qp, status);
}

void finish_recv(System& system, QueuePair& qp, ibv_wc wc, bool solicited) {
  wc.wr_id = qp.recv.front().wr_id;
  wc.qp_num = qp.number;
  const Completion completion{.wc = wc, .sequence = qp.recv.begin(), .send = false, .solicited = solicited};
  drop_recv(system, qp);
  complete_after_hop(system, *qp.recv_cq, completion);
}

void enter_error(System& system, QueuePair& qp) {
  if (qp.state == IBV_QPS_ERR) return;
  qp.state = IBV_QPS_ERR;
  stop(qp);
  while (!qp.send.empty()) finish_send(system, qp, IBV_WC_WR_FLUSH_ERR);
  while (!qp.recv.empty()) finish_recv(system, qp, wc_with(IBV_WC_WR_FLUSH_ERR), false);
  deliver(system, *qp.context->process);
}

void reset(System& system, QueuePair& qp) {
  qp.state = IBV_QPS_RESET;
  stop(qp);
  drop_responses(system, qp);
  while (!qp.send.empty()) drop_send(system, qp, IBV_WC_WR_FLUSH_ERR);
  while (!qp.recv.empty()) drop_recv(system, qp);
  forget_late(*qp.recv_cq, qp.number);
  qp.attr = {};
  qp.route = {};
  qp.send_reclaimed = qp.send.end();
  qp.recv_reclaimed = qp.recv.end();
  qp.established = qp.nak_sent = false;
  qp.atomic_count = 0;
}

std::string describe(const QueuePair& qp) {
  static constexpr std::array kStates{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  std::array<char, 160> text;
  std::snprintf(text.data(), text.size(), "QP 0x%06x -> 0x%06x (%s), %llu sends unfinished, %llu receives posted",
                qp.number, qp.attr.dest_qp_num, kStates[qp.state], static_cast<unsigned long long>(qp.send.size()),
                static_cast<unsigned long long>(qp.recv.size()));
  return text.data();
}

}  // namespace meshbed::sim::verbs

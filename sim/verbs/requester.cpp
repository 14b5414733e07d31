// The requester: send queue to wire, acknowledgements to completions.

#include <algorithm>
#include <optional>

#include "sim/verbs/psn.h"
#include "sim/verbs/system.h"

namespace meshbed::sim::verbs {
namespace {

/// A fence waits for all reads and atomics before it (ibv_post_send(3), IBV_SEND_FENCE).
bool fence_holds(const QueuePair& qp, std::uint64_t sequence) {
  if ((qp.send[sequence].send_flags & IBV_SEND_FENCE) == 0) return false;
  for (std::uint64_t before = qp.send.begin(); before < sequence; ++before) {
    if (has_response(qp.send[before].opcode) && !qp.send[before].done) return true;
  }
  return false;
}

/// No more reads and atomics may be outstanding than max_rd_atomic (ibv_modify_qp(3)).
bool too_many_reads(const QueuePair& qp, const SendEntry& entry) {
  return has_response(entry.opcode) && !entry.counted && qp.reads_outstanding >= qp.attr.max_rd_atomic;
}

/// The local error with which a request ends before it is sent; IBV_WC_SUCCESS: none.
ibv_wc_status local_error(System& system, const QueuePair& qp, const SendEntry& entry) {
  if (entry.payload_bytes > kMessageBytesMax) return IBV_WC_LOC_LEN_ERR;
  if (has_response(entry.opcode) && qp.attr.max_rd_atomic == 0) return IBV_WC_LOC_QP_OP_ERR;
  SpanList spans;
  return local_spans(system, qp, entry, spans) ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
}

void request_sent(void* self, std::uint64_t) {
  System& owner = system();
  Flight& flight = *static_cast<Flight*>(self);
  QueuePair* qp = owner.queue_pairs.find(flight.source_qp);
  if (qp == nullptr) return release(owner, flight);
  qp->wire_busy = false;
  const bool unfinished = qp->send.holds(flight.sequence);
  if (unfinished && qp->round == flight.round) {
    qp->send[flight.sequence].sent = true;
    ensure_timer(owner, *qp);
  }
  if (unfinished && path_usable(owner, *qp) && flaps_of(owner, *qp) == flight.flaps && !vanishes(flight)) {
    owner.world.after(one_way_ps(owner, qp->route.path, sending_port(*qp)), qp->route.peer.node, request_arrives,
                      &flight, 0);
  } else {
    release(owner, flight);
  }
  pump(owner, *qp);
}

void start(System& system, QueuePair& qp, std::uint64_t sequence) {
  SendEntry& entry = qp.send[sequence];
  if (entry.tries++ > 0) ++system.counters.retransmissions;
  entry.started_ps = system.world.now();
  if (has_response(entry.opcode) && !entry.counted) {
    entry.counted = true;
    ++qp.reads_outstanding;
  }
  qp.next = sequence + 1;
  qp.reached = std::max(qp.reached, qp.next);
  if (!path_usable(system, qp)) {  // nothing leaves a port whose link is down
    entry.sent = true;
    ensure_timer(system, qp);
    return;
  }
  Flight& flight = *system.flights.take();
  flight.source_qp = qp.number;
  flight.sequence = sequence;
  flight.round = qp.round;
  flight.flaps = flaps_of(system, qp);
  flight.snapshot = nullptr;
  // A read's or atomic's request is one packet; what it resumes is its response.
  flight.from = has_response(entry.opcode) ? 0 : entry.resume;
  flight.left = has_response(entry.opcode) ? 1 : entry.packet_count - entry.resume;
  let_through(system, qp, flight);
  if (may_be_oversized(qp)) drop_oversized(qp, request_train(qp, entry.opcode, entry.payload_bytes), flight);
  qp.wire_busy = true;
  const std::uint64_t payload_bytes = has_response(entry.opcode) ? 0 : entry.payload_bytes;
  put_on_wire(system, qp, flight_wire_bytes(qp, flight, payload_bytes, entry.wire_bytes), qp.number, request_sent,
              flight);
}

/// So many packets of the request, or of its response, have got through: progress, which brings all retries back.
void resume_from(QueuePair& qp, SendEntry& entry, std::uint32_t packets) {
  if (packets <= entry.resume) return;
  entry.resume = packets;
  qp.retries_left = qp.attr.retry_cnt;
}

/// Everything up to `psn` is acknowledged; reads and atomics still need their responses.
void acknowledge(QueuePair& qp, std::uint32_t psn) {
  for (std::uint64_t sequence = qp.send.begin(); sequence < qp.reached; ++sequence) {
    SendEntry& entry = qp.send[sequence];
    if (psn_ahead(psn, psn_add(entry.first_psn, entry.packet_count - 1)) < 0) {
      const std::int32_t arrived = psn_ahead(psn, entry.first_psn) + 1;
      if (!has_response(entry.opcode) && arrived > 0) resume_from(qp, entry, static_cast<std::uint32_t>(arrived));
      break;
    }
    if (!has_response(entry.opcode)) entry.done = true;
  }
}

/// Is `psn` one of those that are on the way? Anything else comes from another connection and is ignored.
bool outstanding(const QueuePair& qp, std::uint32_t psn) {
  if (qp.send.begin() >= qp.reached) return false;
  const SendEntry& newest = qp.send[qp.reached - 1];
  return psn_ahead(psn, qp.send[qp.send.begin()].first_psn) >= 0 &&
         psn_ahead(psn, psn_add(newest.first_psn, newest.packet_count)) < 0;
}

/// Puts a response's bytes into the requester's memory. No value: there is nothing to take them from any more.
std::optional<ibv_wc_status> take_response(System& system, const QueuePair& qp, const SendEntry& entry,
                                           const Flight& flight) {
  SpanList from, to;
  if (!local_spans(system, qp, entry, to)) return IBV_WC_LOC_PROT_ERR;
  if (entry.payload_bytes == 0) return IBV_WC_SUCCESS;
  from.count = 1;
  if (flight.snapshot != nullptr) {
    from.spans[0] = {flight.snapshot->bytes, static_cast<std::uint32_t>(entry.payload_bytes), nullptr};
  } else {
    const QueuePair* responder = system.queue_pairs.find(flight.responder_qp);
    if (responder == nullptr) return std::nullopt;
    from.spans[0] = system.memory.locate(entry.rkey, *responder->domain, entry.remote_address,
                                         static_cast<std::uint32_t>(entry.payload_bytes), IBV_ACCESS_REMOTE_READ);
    if (from.spans[0].bytes == nullptr) return IBV_WC_REM_ACCESS_ERR;  // deregistered while it was under way
  }
  copy_spans(system, {qp.route.peer, qp.context->port}, from, to, entry.payload_bytes);
  system.counters.copied_bytes += entry.payload_bytes;
  return IBV_WC_SUCCESS;
}

}  // namespace

void response_lost(System& system, QueuePair& qp, SendEntry& entry) {
  entry.responding = false;
  uncount(qp, entry);
  restart_timer(system, qp);
}

void uncount(QueuePair& qp, SendEntry& entry) {
  if (!entry.counted) return;
  entry.counted = false;
  --qp.reads_outstanding;
}

bool local_spans(System& system, const QueuePair& qp, const SendEntry& entry, SpanList& list) {
  if ((entry.send_flags & IBV_SEND_INLINE) != 0) {
    list.count = entry.payload_bytes > 0 ? 1 : 0;
    if (list.count > 0) list.spans[0] = {entry.block->bytes, static_cast<std::uint32_t>(entry.payload_bytes), nullptr};
    return true;
  }
  const BackendSge* sges = entry.sge_count > 1 ? entry.block->sges : &entry.sge;
  const unsigned access = has_response(entry.opcode) ? IBV_ACCESS_LOCAL_WRITE : 0;
  return spans_of(system.memory, *qp.domain, sges, entry.sge_count, access, list);
}

void pump(System& system, QueuePair& qp) {
  if (system.world.stopped(qp.context->port.node)) return;
  while (qp.state == IBV_QPS_RTS && !qp.wire_busy && qp.rnr_until_ps < 0 && qp.next < qp.send.end()) {
    SendEntry& entry = qp.send[qp.next];
    if (entry.done && entry.status != IBV_WC_SUCCESS) return;  // it ends the queue pair when its turn comes
    if (entry.done || entry.responding) {                      // behind a go-back: need not be sent again
      ++qp.next;
      continue;
    }
    if (const ibv_wc_status error = local_error(system, qp, entry); error != IBV_WC_SUCCESS) {
      fail_request(system, qp, qp.next, error);
      return;
    }
    if (fence_holds(qp, qp.next) || too_many_reads(qp, entry)) return;
    start(system, qp, qp.next);
  }
}

void settle(System& system, QueuePair& qp) {
  bool progress = false;
  while (!qp.send.empty() && qp.send.front().done) {
    const ibv_wc_status status = qp.send.front().status;
    finish_send(system, qp, status);
    if (status != IBV_WC_SUCCESS) return enter_error(system, qp);
    progress = true;
  }
  if (!progress) return;
  qp.retries_left = qp.attr.retry_cnt;
  qp.rnr_retries_left = qp.attr.rnr_retry;
  restart_timer(system, qp);
}

void advance(System& system, QueuePair& qp) {
  settle(system, qp);
  pump(system, qp);
}

void fail_request(System& system, QueuePair& qp, std::uint64_t sequence, ibv_wc_status status) {
  SendEntry& entry = qp.send[sequence];
  entry.done = true;
  entry.status = status;
  advance(system, qp);
}

void answer_arrives(void* self, std::uint64_t) {
  System& owner = system();
  const Flight flight = *static_cast<Flight*>(self);
  release(owner, *static_cast<Flight*>(self));
  QueuePair* qp = owner.queue_pairs.find(flight.source_qp);
  if (qp == nullptr || qp->state != IBV_QPS_RTS || !still_arrives(owner, *qp, flight.flaps)) return;
  switch (flight.answer) {
    case Answer::kAck:
      if (!outstanding(*qp, flight.psn)) return;
      acknowledge(*qp, flight.psn);
      return advance(owner, *qp);
    case Answer::kSequenceNak:
      if (!outstanding(*qp, flight.psn) || flight.round != qp->round) return;
      acknowledge(*qp, psn_before(flight.psn));
      settle(owner, *qp);
      return retry(owner, *qp);
    case Answer::kRnrNak:
      if (flight.round != qp->round || !qp->send.holds(flight.sequence)) return;
      return wait_for_receiver(owner, *qp, flight.sequence, flight.code);
    case Answer::kErrorNak:
      if (!qp->send.holds(flight.sequence) || qp->send[flight.sequence].done) return;
      acknowledge(*qp, psn_before(flight.psn));
      return fail_request(owner, *qp, flight.sequence, static_cast<ibv_wc_status>(flight.code));
  }
}

void response_arrives(void* self, std::uint64_t) {
  System& owner = system();
  Flight& flight = *static_cast<Flight*>(self);
  const std::uint64_t sequence = flight.sequence;
  QueuePair* qp = owner.queue_pairs.find(flight.source_qp);
  if (qp == nullptr || !qp->send.holds(sequence) || qp->send[sequence].done) return release(owner, flight);
  SendEntry& entry = qp->send[sequence];
  const bool lost = !still_arrives(owner, *qp, flight.flaps);
  if (!lost && flight.through < flight.left) {
    const bool gap = shows_gap(flight);
    resume_from(*qp, entry, flight.from + flight.through);
    release(owner, flight);
    response_lost(owner, *qp, entry);
    if (gap) retry(owner, *qp);
    return;
  }
  const std::optional<ibv_wc_status> status = lost ? std::nullopt : take_response(owner, *qp, entry, flight);
  release(owner, flight);
  if (!status) return response_lost(owner, *qp, entry);
  entry.responding = false;
  if (*status != IBV_WC_SUCCESS) return fail_request(owner, *qp, sequence, *status);
  entry.done = true;
  uncount(*qp, entry);
  deliver(owner, *qp->context->process);
  advance(owner, *qp);
}

}  // namespace meshbed::sim::verbs

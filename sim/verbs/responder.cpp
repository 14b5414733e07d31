// The responder: executes requests as they arrive, and acknowledges them.

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "sim/verbs/psn.h"
#include "sim/verbs/system.h"

namespace meshbed::sim::verbs {
namespace {

struct Verdict {
  Answer answer = Answer::kAck;
  std::uint8_t code = 0;
};

constexpr Verdict refusal(ibv_wc_status status) { return {Answer::kErrorNak, static_cast<std::uint8_t>(status)}; }

/// Responder queue pairs fail on these, with an affiliated event (specification, 9.9.3: class C faults).
Verdict fault(System& system, QueuePair& target, ibv_event_type event, ibv_wc_status at_requester) {
  raise_event(system, *target.context, event, target.number);
  enter_error(system, target);
  return refusal(at_requester);
}
Verdict access_fault(System& system, QueuePair& target) {
  return fault(system, target, IBV_EVENT_QP_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR);
}
Verdict invalid_request(System& system, QueuePair& target) {
  return fault(system, target, IBV_EVENT_QP_REQ_ERR, IBV_WC_REM_INV_REQ_ERR);
}

/// Is `target` the other end of `source`'s connection? Packets of any other sender are dropped silently.
bool accepts(const QueuePair& target, const QueuePair& source) {
  return (target.state == IBV_QPS_RTR || target.state == IBV_QPS_RTS) && target.context->port == source.route.peer &&
         target.route.peer == source.context->port && target.attr.dest_qp_num == source.number &&
         target.route.gid_type == source.route.gid_type && target.route.vlan == source.route.vlan &&
         target.route.source_gid == source.route.destination_gid &&
         target.route.destination_gid == source.route.source_gid;
}

unsigned access_for(unsigned opcode) {
  if (is_atomic(opcode)) return IBV_ACCESS_REMOTE_ATOMIC;
  return is_read(opcode) ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
}

/// Takes a receive request for a send; fills `to` with its memory. Anything but kAck means that there is none.
Verdict receive_memory(System& system, QueuePair& target, const SendEntry& entry, SpanList& to) {
  if (target.recv.empty()) return {Answer::kRnrNak, target.attr.min_rnr_timer};
  const RecvEntry& receive = target.recv.front();
  const BackendSge* sges = receive.sge_count > 1 ? receive.block->sges : &receive.sge;
  std::uint64_t room_bytes = 0;
  for (std::uint32_t index = 0; index < receive.sge_count; ++index) room_bytes += sges[index].length;
  if (room_bytes < entry.payload_bytes) {
    finish_recv(system, target, wc_with(IBV_WC_LOC_LEN_ERR), false);
    enter_error(system, target);
    return refusal(IBV_WC_REM_INV_REQ_ERR);
  }
  if (!spans_of(system.memory, *target.domain, sges, receive.sge_count, IBV_ACCESS_LOCAL_WRITE, to)) {
    finish_recv(system, target, wc_with(IBV_WC_LOC_PROT_ERR), false);
    enter_error(system, target);
    return refusal(IBV_WC_REM_OP_ERR);
  }
  return {};
}

void complete_receive(System& system, QueuePair& target, const SendEntry& entry) {
  ibv_wc wc{};
  wc.opcode = entry.opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  wc.byte_len = static_cast<std::uint32_t>(entry.payload_bytes);
  wc.src_qp = target.attr.dest_qp_num;
  if (has_imm(entry.opcode)) {
    wc.imm_data = entry.imm_data;
    wc.wc_flags = IBV_WC_WITH_IMM;
  }
  finish_recv(system, target, wc, (entry.send_flags & IBV_SEND_SOLICITED) != 0);
}

/// The responder's memory that a write, read or atomic names. Empty requests name none. False: not allowed.
bool remote_memory(System& system, const QueuePair& target, const SendEntry& entry, SpanList& list) {
  list.count = 0;
  if (entry.payload_bytes == 0) return true;
  const Span span = system.memory.locate(entry.rkey, *target.domain, entry.remote_address,
                                         static_cast<std::uint32_t>(entry.payload_bytes), access_for(entry.opcode));
  list.spans[list.count++] = span;
  return span.bytes != nullptr;
}

/// A send or write. No value: the requester's own memory was not there any more; the request has failed locally.
std::optional<Verdict> execute_transfer(System& system, QueuePair& target, QueuePair& source, SendEntry& entry,
                                        std::uint64_t sequence) {
  SpanList from, to;
  const bool write = entry.opcode == IBV_WR_RDMA_WRITE || entry.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  if (write) {
    if ((target.attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE) == 0) return invalid_request(system, target);
    if (!remote_memory(system, target, entry, to)) return access_fault(system, target);
    if (takes_receive(entry.opcode) && target.recv.empty()) return Verdict{Answer::kRnrNak, target.attr.min_rnr_timer};
  } else if (const Verdict verdict = receive_memory(system, target, entry, to); verdict.answer != Answer::kAck) {
    return verdict;
  }
  if (!local_spans(system, source, entry, from)) {
    fail_request(system, source, sequence, IBV_WC_LOC_PROT_ERR);
    return std::nullopt;
  }
  copy_spans(system, {source.context->port, target.context->port}, from, to, entry.payload_bytes);
  system.counters.copied_bytes += entry.payload_bytes;
  if (takes_receive(entry.opcode)) {
    complete_receive(system, target, entry);
  } else {
    deliver(system, *target.context->process);
  }
  return Verdict{};
}

/// What a port that is made to refuse requests replies. Where it is not ready, the sender's retries have run out.
Verdict refuse(System& system, QueuePair& target, Refusal how) {
  return how == Refusal::kAccess ? access_fault(system, target) : refusal(IBV_WC_RNR_RETRY_EXC_ERR);
}

void queue_response(System& system, QueuePair& target, SendEntry& entry, Flight& flight) {
  entry.responding = true;
  flight.responder_qp = target.number;
  flight.aborted = false;
  flight.next = nullptr;
  (target.responses_first == nullptr ? target.responses_first : target.responses_last->next) = &flight;
  target.responses_last = &flight;
  ++target.responses;
  start_response(system, target);
}

std::uint64_t apply_atomic(const SendEntry& entry, char* bytes) {
  std::uint64_t before = 0;
  std::memcpy(&before, bytes, sizeof(before));
  std::uint64_t after = before + entry.compare_add;
  if (entry.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) after = before == entry.compare_add ? entry.swap : before;
  std::memcpy(bytes, &after, sizeof(after));
  return before;
}

/// A read or atomic: an error, or no value where a response has been queued (the flight now belongs to it).
std::optional<Verdict> execute_with_response(System& system, QueuePair& target, SendEntry& entry, Flight& flight,
                                             bool duplicate) {
  if ((target.attr.qp_access_flags & access_for(entry.opcode)) == 0) return invalid_request(system, target);
  if (!duplicate && target.responses >= target.attr.max_dest_rd_atomic) return invalid_request(system, target);
  SpanList from;
  if (!remote_memory(system, target, entry, from)) return access_fault(system, target);
  if (from.count > 0) system.posted_writes.pushed_by_read(target.context->port, from.spans[0]);
  if (is_atomic(entry.opcode)) {
    AtomicResult result;
    if (!duplicate) {
      result = {entry.first_psn, apply_atomic(entry, from.spans[0].bytes)};
      target.atomic_results[target.atomic_count++ % target.atomic_results.size()] = result;
      deliver(system, *target.context->process);
    } else {
      const auto& results = target.atomic_results;
      const auto found =
          std::find_if(results.begin(), results.begin() + std::min<std::size_t>(target.atomic_count, results.size()),
                       [&](const AtomicResult& each) { return each.psn == entry.first_psn; });
      if (found == results.end()) return invalid_request(system, target);
      result = *found;
    }
    flight.snapshot = system.blocks.take();
    std::memcpy(flight.snapshot->bytes, &result.value, sizeof(result.value));
  } else if (entry.payload_bytes > 0 && entry.payload_bytes <= sizeof(Block::bytes)) {
    flight.snapshot = system.blocks.take();
    std::memcpy(flight.snapshot->bytes, from.spans[0].bytes, entry.payload_bytes);
  }
  queue_response(system, target, entry, flight);
  return std::nullopt;
}

void answer(System& system, const QueuePair& source, Flight& flight, Verdict verdict, std::uint32_t psn) {
  flight.answer = verdict.answer;
  flight.code = verdict.code;
  flight.psn = psn;
  const models::PortRef port = answering_port(source);
  const double loss = source.route.path != nullptr ? system.network.shape(port).loss : 0;
  if (loss > 0 && system.port(port).dice.chance(loss)) return release(system, flight);
  system.world.after(one_way_ps(system, source.route.path, port), source.context->port.node, answer_arrives, &flight,
                     0);
}

/// The request that the responder expects.
void in_sequence(System& system, QueuePair& target, QueuePair& source, SendEntry& entry, Flight& flight) {
  // What execution does below can end the source's requests, this one among them: remember what is needed afterwards.
  const std::uint32_t first_psn = entry.first_psn;
  const std::uint32_t end_psn = psn_add(first_psn, entry.packet_count);
  const bool oversized = mtu_bytes(source.attr.path_mtu) > mtu_bytes(target.attr.path_mtu) &&
                         entry.payload_bytes > mtu_bytes(target.attr.path_mtu) && !has_response(entry.opcode);
  const auto executed = [&] {
    target.expected_psn = end_psn;
    target.nak_sent = false;
    entry.delivered_ps = system.world.now();
    ++entry.deliveries;
    ++system.counters.delivered;
  };
  if (const Refusal how = system.network.shape(target.context->port).refusal; how != Refusal::kNone) {
    answer(system, source, flight, refuse(system, target, how), first_psn);
  } else if (oversized) {
    answer(system, source, flight, invalid_request(system, target), first_psn);
  } else if (has_response(entry.opcode)) {
    const auto verdict = execute_with_response(system, target, entry, flight, false);
    if (verdict) return answer(system, source, flight, *verdict, first_psn);
    executed();
  } else {
    const auto verdict = execute_transfer(system, target, source, entry, flight.sequence);
    if (!verdict) return release(system, flight);
    if (verdict->answer != Answer::kAck) {
      target.nak_sent = true;
      return answer(system, source, flight, *verdict, first_psn);
    }
    executed();
    answer(system, source, flight, *verdict, psn_before(end_psn));
  }
}

/// A request that was executed before and whose answer was lost: answered again, not executed again.
void duplicate(System& system, QueuePair& target, QueuePair& source, SendEntry& entry, Flight& flight) {
  if (!has_response(entry.opcode)) return answer(system, source, flight, {}, psn_before(target.expected_psn));
  if (entry.responding) return release(system, flight);
  const auto verdict = execute_with_response(system, target, entry, flight, true);
  if (verdict) answer(system, source, flight, *verdict, entry.first_psn);
}

/// A packet is missing: sends one NAK, and waits for it.
void out_of_sequence(System& system, QueuePair& target, QueuePair& source, Flight& flight) {
  if (std::exchange(target.nak_sent, true)) return release(system, flight);
  answer(system, source, flight, {Answer::kSequenceNak, 0}, target.expected_psn);
}

/// The first packets of a message, whose others have not come through.
void accept_part(System& system, QueuePair& target, QueuePair& source, const SendEntry& entry, Flight& flight) {
  const bool send = entry.opcode == IBV_WR_SEND || entry.opcode == IBV_WR_SEND_WITH_IMM;
  if (send && target.recv.empty()) {
    target.nak_sent = true;
    return answer(system, source, flight, {Answer::kRnrNak, target.attr.min_rnr_timer}, entry.first_psn);
  }
  target.expected_psn = psn_add(entry.first_psn, flight.from + flight.through);
  target.nak_sent = false;
  if (!shows_gap(flight)) return release(system, flight);
  out_of_sequence(system, target, source, flight);
}

/// A response that will not come.
void lose_response(System& system, Flight& flight) {
  QueuePair* source = system.queue_pairs.find(flight.source_qp);
  if (source != nullptr && source->send.holds(flight.sequence)) {
    response_lost(system, *source, source->send[flight.sequence]);
  }
  release(system, flight);
}

Flight& pop_response(QueuePair& responder) {
  Flight& flight = *responder.responses_first;
  responder.responses_first = flight.next;
  --responder.responses;
  return flight;
}

void response_sent(void* self, std::uint64_t) {
  System& owner = system();
  Flight& flight = *static_cast<Flight*>(self);
  QueuePair* responder = owner.queue_pairs.find(flight.responder_qp);
  if (responder != nullptr) {
    responder->response_busy = false;
    if (!flight.aborted) pop_response(*responder);
  }
  const QueuePair* source = owner.queue_pairs.find(flight.source_qp);
  const bool lost = flight.aborted || responder == nullptr || source == nullptr ||
                    flaps_of(owner, *responder) != flight.flaps || !path_usable(owner, *responder) || vanishes(flight);
  if (lost) {
    lose_response(owner, flight);
  } else {
    owner.world.after(one_way_ps(owner, responder->route.path, sending_port(*responder)), source->context->port.node,
                      response_arrives, &flight, 0);
  }
  if (responder != nullptr) start_response(owner, *responder);
}

// A flow number apart from the requester's of the same queue pair.
constexpr std::uint64_t kResponseFlow = std::uint64_t{kLastQueuePair} + 1;

}  // namespace

void start_response(System& system, QueuePair& responder) {
  if (system.world.stopped(responder.context->port.node)) return;
  while (!responder.response_busy && responder.responses_first != nullptr) {
    Flight& flight = *responder.responses_first;
    const QueuePair* source = system.queue_pairs.find(flight.source_qp);
    if (source == nullptr || !source->send.holds(flight.sequence) || !path_usable(system, responder)) {
      lose_response(system, pop_response(responder));
      continue;
    }
    const SendEntry& entry = source->send[flight.sequence];
    flight.from = entry.resume;
    flight.left = entry.packet_count - entry.resume;
    let_through(system, responder, flight);
    if (may_be_oversized(responder)) drop_oversized(responder, response_train(*source, entry), flight);
    responder.response_busy = true;
    put_on_wire(system, responder,
                flight_wire_bytes(responder, flight, entry.payload_bytes, response_wire_bytes(responder, entry)),
                kResponseFlow | responder.number, response_sent, flight);
  }
}

void drop_responses(System& system, QueuePair& responder) {
  if (responder.response_busy && responder.responses_first != nullptr) pop_response(responder).aborted = true;
  while (responder.responses_first != nullptr) lose_response(system, pop_response(responder));
}

void request_arrives(void* self, std::uint64_t) {
  System& owner = system();
  Flight& flight = *static_cast<Flight*>(self);
  QueuePair* source = owner.queue_pairs.find(flight.source_qp);
  if (source == nullptr || !source->send.holds(flight.sequence) || !still_arrives(owner, *source, flight.flaps)) {
    return release(owner, flight);
  }
  SendEntry& entry = source->send[flight.sequence];
  QueuePair* target = owner.queue_pairs.find(source->attr.dest_qp_num);
  if (entry.done || target == nullptr || !accepts(*target, *source)) return release(owner, flight);
  source->answered_rank = target->context->process->rank;
  if (target->state == IBV_QPS_RTR && !target->established) {
    target->established = true;
    raise_event(owner, *target->context, IBV_EVENT_COMM_EST, target->number);
  }
  const std::uint32_t first = psn_add(entry.first_psn, flight.from);
  const std::uint32_t arriving = psn_add(first, flight.through > 0 ? 0 : flight.shown);  // its first may be missing
  if (psn_ahead(arriving, target->expected_psn) > 0) return out_of_sequence(owner, *target, *source, flight);
  // Of a message of many packets some may have come before.
  const std::uint32_t packets = has_response(entry.opcode) ? entry.packet_count : flight.through;
  if (psn_ahead(psn_add(first, packets), target->expected_psn) <= 0) {
    // What was cut off behind the packets that are here already may be new: from there on, then.
    const bool more = psn_ahead(psn_add(first, flight.left), target->expected_psn) > 0;
    if (!has_response(entry.opcode) && shows_gap(flight) && more) {
      return answer(owner, *source, flight, {Answer::kSequenceNak, 0}, target->expected_psn);
    }
    return duplicate(owner, *target, *source, entry, flight);
  }
  if (flight.through == flight.left) return in_sequence(owner, *target, *source, entry, flight);
  accept_part(owner, *target, *source, entry, flight);
}

}  // namespace meshbed::sim::verbs

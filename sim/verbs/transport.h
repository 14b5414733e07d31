#pragma once
// Transport: the reliable connection's protocol, message by message (InfiniBand Architecture, volume 1, chapter 9.7).
//
// Nomenclature: request - a send, write, read or atomic on its way to the responder; flight - one try of a request,
// from its first bit to the answer; round - the tries since the last go-back. A request occupies the path for its wire
// bytes; it is executed at the responder one path latency after its last bit left, and the answer comes one more
// latency later (acknowledgements are timers, they take no bandwidth). The next request of the queue pair starts when
// the last bit of the one before has left. A read's or atomic's response is a transfer on the way back, one at a time a
// queue pair. Cost: three events a request (last bit, arrival, answer); nothing is allocated once the pools are warm.
//
// Lost is what was on the way when a port at either end went down: its flights compare the ports' flap counts.
// Packets that a port's Shape loses or lets be overtaken cut a flight short: the packets before the first such one
// arrive; the one behind it, if the message has one, shows the gap and is answered with a NAK (rxe, like adapters,
// sends everything again from there), else the timer finds out. What arrived of a message need not be sent again. The
// wire carries the flight up to the packet that shows the gap; that adapters go on sending until the NAK is back is
// left out. What a switch drops as too large (Path::mtu_bytes) never arrives, however often it is sent: behind it only
// a shorter last packet can show the gap; such a packet still counts on all links of the way. A request whose queue
// pair left RTS before the arrival is not delivered, and memory is read when a message arrives, not when it starts:
// until then its owner must leave it alone anyway. Only the values of small reads and of atomics are taken at the
// responder when the request arrives there, because programs poll flags with them.

#include <cstdint>

#include "models/lan/frame.h"
#include "sim/verbs/queue_pair.h"

namespace meshbed::sim::verbs {

enum class Answer : std::uint8_t { kAck, kSequenceNak, kRnrNak, kErrorNak };

struct Flight {
  std::uint32_t source_qp;
  std::uint32_t responder_qp;  // of a response
  std::uint64_t sequence;      // of the request on its queue pair
  std::uint32_t round;
  std::uint32_t flaps;    // of both ports, when it started
  std::uint32_t psn;      // acknowledged; of a NAK: the one that the responder expects, all before it have arrived
  std::uint32_t from;     // first packet of the message (of its response) that is sent this time
  std::uint32_t left;     // packets from there on, and
  std::uint32_t through;  // how many of them arrive in order
  std::uint32_t shown;  // place among them of the one that arrives behind the first that does not; else `left` or more
  Answer answer;
  std::uint8_t code;  // RNR timer field, or ibv_wc_status of an error NAK
  bool aborted;       // a response whose queue pair left the connected states while it was on the wire
  Block* snapshot;    // a small read's or an atomic's value
  Flight* next;
};

constexpr bool is_atomic(unsigned opcode) {
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}
constexpr bool is_read(unsigned opcode) { return opcode == IBV_WR_RDMA_READ; }
/// Has a response of its own in place of an acknowledgement.
constexpr bool has_response(unsigned opcode) { return is_read(opcode) || is_atomic(opcode); }
constexpr bool takes_receive(unsigned opcode) {
  return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}
constexpr bool has_imm(unsigned opcode) {
  return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

// --- sizes and times ---
/// Bytes of a request's packets on the wire.
std::uint64_t request_wire_bytes(const QueuePair& qp, unsigned opcode, std::uint64_t payload_bytes);
std::uint64_t response_wire_bytes(const QueuePair& responder, const SendEntry& entry);
/// Packet sequence numbers that a request uses up: a read's are those of its response.
std::uint32_t packets_of(const QueuePair& qp, unsigned opcode, std::uint64_t payload_bytes);
/// The timer field of an RNR NAK (table 45 of the specification): 0.01 ms (code 1) to 655.36 ms (code 0).
Picoseconds rnr_timer_ps(std::uint8_t code);
/// 4.096 us * 2^timeout (ibv_modify_qp(3): timeout); -1: infinite.
Picoseconds ack_timeout_ps(std::uint8_t timeout);

// --- wire ---
/// Which of the flight's packets the port's Shape lets arrive (`through`, `shown`): neither lost nor overtaken.
void let_through(System& system, const QueuePair& sender, Flight& flight);
/// A switch on the way drops packets that are too large.
inline bool may_be_oversized(const QueuePair& sender) {
  return sender.route.path != nullptr && sender.route.path->mtu_bytes != 0;
}
/// The packets of a request, and of the response to it, as such a switch sees them.
models::PacketTrain request_train(const QueuePair& qp, unsigned opcode, std::uint64_t payload_bytes);
models::PacketTrain response_train(const QueuePair& requester, const SendEntry& entry);
/// After let_through(), where packets may be oversized: which of those that are left arrive. `train`: the whole message
/// or response.
void drop_oversized(const QueuePair& sender, const models::PacketTrain& train, Flight& flight);
/// A packet behind the first that is missing arrives and shows it.
inline bool shows_gap(const Flight& flight) { return flight.shown < flight.left; }
/// Nothing of it arrives.
inline bool vanishes(const Flight& flight) { return flight.through == 0 && !shows_gap(flight) && flight.left > 0; }
/// Wire bytes of the flight's packets, of a message or response whose packets take `whole` altogether.
std::uint64_t flight_wire_bytes(const QueuePair& sender, const Flight& flight, std::uint64_t payload_bytes,
                                std::uint64_t whole);
/// From a port to its peer: the path's latency and the delay of the port's Shape.
Picoseconds one_way_ps(const System& system, const Path* path, models::PortRef from);
void put_on_wire(System& system, const QueuePair& qp, std::uint64_t wire_bytes, std::uint64_t flow, EventFunction done,
                 Flight& flight);

// --- requester ---
/// Puts the next requests on the wire, as far as order, fences, limits and timers allow.
void pump(System& system, QueuePair& qp);
/// Completes what is finished at the head of the send queue; to ERR where that failed.
void settle(System& system, QueuePair& qp);
/// settle, then pump.
void advance(System& system, QueuePair& qp);
/// The request ends with `status` when its turn comes; nothing behind it is sent.
void fail_request(System& system, QueuePair& qp, std::uint64_t sequence, ibv_wc_status status);
/// The response to a read or atomic will not come: the timer finds out.
void response_lost(System& system, QueuePair& qp, SendEntry& entry);
/// A read or atomic that is no longer outstanding.
void uncount(QueuePair& qp, SendEntry& entry);
/// The memory that a request's bytes come from (or a response's go to); false where a local key does not hold.
bool local_spans(System& system, const QueuePair& qp, const SendEntry& entry, SpanList& list);
/// An answer, or a response, is back at the requester.
void answer_arrives(void* flight, std::uint64_t);
void response_arrives(void* flight, std::uint64_t);

// --- responder ---
void request_arrives(void* flight, std::uint64_t);
/// The next response of `responder`, if none is on the wire.
void start_response(System& system, QueuePair& responder);
/// The queue pair leaves the connected states: its responses are lost.
void drop_responses(System& system, QueuePair& responder);

// --- retry ---
/// The oldest request that was sent is not finished yet: time it from now. Stops the timer where there is none.
void restart_timer(System& system, QueuePair& qp);
/// Starts the timer if it is not running.
void ensure_timer(System& system, QueuePair& qp);
/// One of the retries is spent on sending again from the oldest unfinished request on; RETRY_EXC_ERR where none is
/// left.
void retry(System& system, QueuePair& qp);
/// The responder had no receive request for `sequence`: waits for its RNR timer, then sends again; RNR_RETRY_EXC_ERR
/// where no retry is left.
void wait_for_receiver(System& system, QueuePair& qp, std::uint64_t sequence, std::uint8_t timer_code);

}  // namespace meshbed::sim::verbs

#pragma once
// QueuePair: the reliable connection's two ends in one object: its requester (send queue), its responder (receive
// queue) and its state (ibv_create_qp(3), ibv_modify_qp(3)).
//
// QP numbers are 24 bits, unique in the world and never used twice, so that packets still in flight when one is
// destroyed find nothing.

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <string>

#include "models/cluster.h"
#include "sim/engine/network.h"
#include "sim/verbs/completion.h"
#include "sim/verbs/device.h"
#include "sim/verbs/memory.h"
#include "sim/verbs/pools.h"

namespace meshbed::sim::verbs {

inline constexpr std::uint32_t kFirstQueuePair = 0x100;
inline constexpr std::uint32_t kLastQueuePair = 0xffffff;

/// What does not fit into a work request's own entry: a longer scatter list, inline data, a small read's answer.
union Block {
  BackendSge sges[kBackendMaxSge];
  char bytes[kBackendMaxInline];
};

/// A send work request from post to completion. Sequence numbers of Ring<SendEntry> name it.
struct SendEntry {
  std::uint64_t wr_id;
  std::uint64_t remote_address;
  std::uint64_t compare_add;
  std::uint64_t swap;
  BackendSge sge;  // the only one, where sge_count is 1
  Block* block;    // the list of more than one, or the inline data
  std::uint64_t payload_bytes;
  std::uint64_t wire_bytes;  // of the request: a read's or atomic's is one packet
  Picoseconds posted_ps, started_ps, delivered_ps;
  std::uint64_t post_number;
  std::uint32_t rkey;
  std::uint32_t imm_data;
  std::uint32_t first_psn, packet_count;
  std::uint32_t resume;  // packets of it (of its response) that the other end is known to have: not to be sent again
  std::uint32_t tries, deliveries;
  ibv_wc_status status;     // meaningful once done
  std::uint8_t opcode;      // ibv_wr_opcode
  std::uint8_t send_flags;  // ibv_send_flags
  std::uint8_t sge_count;
  bool sent;        // its last bit left in the current round (see QueuePair::round)
  bool counted;     // a read or atomic that is in QueuePair::reads_outstanding
  bool responding;  // a read or atomic whose response is under way
  bool done;        // acknowledged, answered or failed; completes when it becomes the oldest
};

struct RecvEntry {
  std::uint64_t wr_id;
  BackendSge sge;
  Block* block;
  std::uint32_t sge_count;
};

struct Flight;

/// Where packets of a queue pair go: found when it becomes ready to receive.
struct PairRoute {
  models::PortRef peer;
  const Path* path = nullptr;  // nullptr: loopback within the port
  std::uint64_t flow = 0;      // what a bond hashes
  std::uint32_t moves = 0;     // times a bond gave it another path
  models::GidType gid_type = models::GidType::kRoceV2;
  models::RawGid source_gid{}, destination_gid{};
  std::uint16_t vlan = 0;           // of the interface that its packets leave by; 0: they have no tag
  std::uint32_t headers_bytes = 0;  // of a packet within its frame (models/lan/frame.h)
  bool dropped = false;             // a router on the way forwards none of them
};

struct AtomicResult {
  std::uint32_t psn = 0;
  std::uint64_t value = 0;
};

struct QueuePair {
  std::uint32_t number = 0;
  Context* context = nullptr;
  ProtectionDomain* domain = nullptr;
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* recv_cq = nullptr;
  bool signal_all = false;
  ibv_qp_cap cap{};
  ibv_qp_state state = IBV_QPS_RESET;
  ibv_qp_attr attr{};  // as ibv_modify_qp set it
  PairRoute route;

  // --- requester ---
  Ring<SendEntry> send;
  std::uint64_t next = 0;     // sequence of the next request to put on the wire; begin() is the oldest unfinished
  std::uint64_t reached = 0;  // one past the newest request that ever was on the wire
  std::uint64_t send_reclaimed = 0;  // slots before it may be posted again: their completions were polled
  std::uint32_t send_psn = 0;        // of the next request to be posted
  std::uint32_t round = 0;           // counts go-backs: what left before one does not count as sent after it
  std::uint32_t reads_outstanding = 0;
  std::uint8_t retries_left = 0, rnr_retries_left = 0;
  bool wire_busy = false;         // a request is being serialised
  Picoseconds rnr_until_ps = -1;  // waiting after a receiver-not-ready; -1: not
  Picoseconds timer_ps = -1;      // local acknowledgement timeout; -1: not running
  int answered_rank = -1;  // whose queue pair took a request last: it may be gone before its acknowledgement is here
  Picoseconds timer_event_ps = -1;  // the earliest event that looks at it; -1: none is queued

  // --- responder ---
  Ring<RecvEntry> recv;
  std::uint64_t recv_reclaimed = 0;
  std::uint32_t expected_psn = 0;
  bool nak_sent = false;              // silent about what comes out of sequence until the expected one is here
  bool established = false;           // IBV_EVENT_COMM_EST was raised
  Flight* responses_first = nullptr;  // reads and atomics to answer, in order; the first is on the wire
  Flight* responses_last = nullptr;
  std::uint32_t responses = 0;
  bool response_busy = false;                                 // a response is being serialised
  std::array<AtomicResult, kReadAtomicMax> atomic_results{};  // for duplicates; newest at atomic_count - 1
  std::uint32_t atomic_count = 0;
};

int create_qp(System& system, Context& context, ProtectionDomain& domain, BackendQpInit& init, std::uint32_t& number);
int query_qp(const QueuePair& qp, ibv_qp_attr& attr, ibv_qp_init_attr& init);
int destroy_qp(System& system, QueuePair& qp);
/// May block for the time of an address resolution.
int modify_qp(System& system, Process& process, std::uint32_t number, const ibv_qp_attr& attr, int mask);
int post_send(System& system, QueuePair& qp, const BackendSendWr& wr);
int post_recv(System& system, QueuePair& qp, const BackendRecvWr& wr);

/// To ERR: flushes the send queue, then the receive queue, each in order. Reads that were accepted before are still
/// answered: a fault's NAK is behind them.
void enter_error(System& system, QueuePair& qp);
/// To RESET: forgets all work requests without completions.
void reset(System& system, QueuePair& qp);
/// Ends a send request: its completion where one is due, its record, its slot. It must be the oldest.
void finish_send(System& system, QueuePair& qp, ibv_wc_status status);
/// Ends the oldest receive request with `wc`, whose wr_id and QP fields are filled in here.
void finish_recv(System& system, QueuePair& qp, ibv_wc wc, bool solicited);

/// Finds the path to the wanted destination of `qp`; errno as ibv_modify_qp returns it. Blocks if the address does not
/// resolve, during which `qp` may be destroyed.
int resolve_route(System& system, const QueuePair& qp, const ibv_qp_attr& wanted, PairRoute& route);

/// "QP 0x101 -> 0x102 (RTS), 2 sends unfinished, 3 receives posted"
std::string describe(const QueuePair& qp);

}  // namespace meshbed::sim::verbs

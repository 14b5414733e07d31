#pragma once
// The in-process back end: semantics of verbs above the flows of the fabric. cli/ and tests meet sim/verbs here.

#include <cstdint>
#include <string>
#include <vector>

#include "models/cluster.h"
#include "sim/verbs/backend.h"

namespace meshbed::sim {

class World;

/// One message as it went over the wire: a send, write, read or atomic. Times are simulated, -1 where it never came.
struct MessageRecord {
  Picoseconds posted_ps = -1;     // ibv_post_send
  Picoseconds started_ps = -1;    // first bit on the wire (last try)
  Picoseconds delivered_ps = -1;  // executed at the responder
  Picoseconds completed_ps = -1;  // acknowledged at the requester
  std::uint64_t payload_bytes = 0;
  std::uint64_t wire_bytes = 0;
  std::uint64_t sequence = 0;  // of the message on its queue pair
  std::int32_t source_rank = -1, destination_rank = -1;
  models::PortRef source, destination;
  models::RawGid source_gid{}, destination_gid{};  // of the address vector; all 0: not given
  std::uint32_t source_qp = 0, destination_qp = 0;
  std::uint32_t opcode = 0;               // ibv_wr_opcode
  std::uint32_t status = 0;               // ibv_wc_status at the requester
  std::uint32_t tries = 0;                // 1: no retransmission
  std::uint32_t deliveries = 0;           // times executed at the responder: 1 where all is well
  std::uint32_t immediate = 0;            // in host order; 0 where the opcode has none
  std::uint64_t flow = 0;                 // what switches of several boxes and bonds select its links by
  std::uint64_t post_number = 0;          // counts ibv_post_send's requests of all ranks
  std::uint64_t response_wire_bytes = 0;  // of a read or atomic whose responder is known
  std::uint32_t reads_most = 0;           // of its queue pair: reads and atomics under way at one time
  bool is_fenced = false;                 // IBV_SEND_FENCE
};

/// Receives each message once, when it completes (or is flushed). Must not block.
class MessageSink {
 public:
  virtual ~MessageSink() = default;
  virtual void message(const MessageRecord& record) = 0;
};

struct VerbsCounters {
  std::uint64_t messages = 0;  // completed or flushed
  std::uint64_t delivered = 0;
  std::uint64_t retransmissions = 0;
  std::uint64_t rnr_naks = 0;
  std::uint64_t copied_bytes = 0;  // memory really copied by the simulator
  std::uint64_t payload_bytes = 0;
  std::uint64_t in_flight = 0;  // posted and not completed
  // Protection domains, completion channels and queues, queue pairs and memory regions of all ranks:
  std::uint64_t live_objects = 0;
  std::uint64_t peak_objects = 0;  // at most, each kind for itself
};

/// What the verbs of a real machine cost its CPU, in the caller's virtual time (World::spend). All 0: the network alone
/// takes time.
struct VerbsCost {
  Picoseconds post_send_ps = 0;   // a call of ibv_post_send, doorbell included
  Picoseconds post_recv_ps = 0;   // a call of ibv_post_recv
  Picoseconds completion_ps = 0;  // each completion that ibv_poll_cq brings
};

/// Makes `world`'s ranks see RDMA devices. Loads the drop-in at `libibverbs_path` (RTLD_NOW | RTLD_GLOBAL) and fills
/// its table; must run before any plugin copy is loaded, so that their DT_NEEDED libibverbs.so.1 resolves to it. `sink`
/// may be nullptr; it and `world` must outlive all calls. Throws std::runtime_error where the file does not load.
void install_verbs(World& world, const std::string& libibverbs_path, MessageSink* sink, const VerbsCost& cost = {});

/// From now on `rank` sees a message's completion `hop_ps` after the message's arrival: the latency between an adapter
/// and the software that waits for it. It is not work: messages that arrive one after the other are seen one after the
/// other, each `hop_ps` late, and a polling thread may do other work meanwhile.
void set_hop(int rank, Picoseconds hop_ps);

/// To be called after Network::set_port_up: loses what is on the way over the port, raises IBV_EVENT_PORT_ERR and
/// IBV_EVENT_PORT_ACTIVE wherever a link's state changed (both ends of a cable).
void port_changed(models::PortRef port);

/// To be called after Network::look_at_bond() found that the RoCE LAG of `device` sends otherwise: its queue pairs, and
/// those that send to it, get the paths that they have now, and lose what was on the way.
void bond_changed(models::PortRef device);

/// To be called after the port's GID table changed: raises IBV_EVENT_GID_CHANGE, and what is on the way between GIDs
/// that are gone does not arrive.
void gids_changed(models::PortRef port);

/// Call it after World::continue_node: the node's adapters go on with their work.
void node_continued(int node);

/// How long a write into a GPU's memory may take to get there, at most; see sim/verbs/posted_writes.h. For tests.
void set_posted_write_delay(Picoseconds most_ps);

/// Of the verbs that are installed.
VerbsCounters verbs_counters();

}  // namespace meshbed::sim

#pragma once
// System: everything that the in-process verbs back end of one World owns. Events and verbs reach it through system().

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "models/cluster.h"
#include "plugin/base/prng.h"
#include "sim/engine/fabric.h"
#include "sim/engine/network.h"
#include "sim/engine/world.h"
#include "sim/verbs/completion.h"
#include "sim/verbs/device.h"
#include "sim/verbs/memory.h"
#include "sim/verbs/pools.h"
#include "sim/verbs/posted_writes.h"
#include "sim/verbs/queue_pair.h"
#include "sim/verbs/transport.h"
#include "sim/verbs/verbs_host.h"

namespace meshbed::sim::verbs {

/// The last state of a port that was reported through verbs.
struct PortWatch {
  bool up = false;          // as last reported
  bool link = false;        // of the function
  std::uint32_t flaps = 0;  // times the link went down
  bool gids_changed = false;
  Prng dice = Prng(0);  // which packets its Shape loses
};

struct System {
  System(World& world, MessageSink* sink);

  World& world;
  Network& network;
  Fabric& fabric;
  MessageSink* sink;  // may be nullptr
  VerbsCounters counters;
  VerbsCost cost;
  std::vector<Picoseconds> hops_ps;           // by rank; see set_hop()
  std::vector<std::vector<PortWatch>> ports;  // by node and NIC
  HandleTable<Context> contexts;
  HandleTable<ProtectionDomain> domains;
  HandleTable<Channel> channels;
  HandleTable<CompletionQueue> completion_queues;
  HandleTable<QueuePair> queue_pairs{kFirstQueuePair};
  MemoryTable memory;
  PostedWrites posted_writes;
  std::uint64_t next_post = 0;  // numbers all send requests
  Pool<Flight> flights;
  Pool<Block> blocks;
  std::set<std::string> refused;  // what was asked for and is not implemented: one WARN each

  PortWatch& port(models::PortRef port) {
    return ports[static_cast<std::size_t>(port.node)][static_cast<std::size_t>(port.nic)];
  }
  const PortWatch& port(models::PortRef port) const {
    return ports[static_cast<std::size_t>(port.node)][static_cast<std::size_t>(port.nic)];
  }
};

/// The installed one; must exist.
System& system();

/// EOPNOTSUPP, with one WARN that names `what` in its verb: "ibv_post_send with opcode 9".
int refuse(System& system, const std::string& what);

/// Something reached `process`: bytes, a completion, an event.
inline void deliver(System& system, Process& process) {
  system.world.progress();
  system.world.signal(process);
}

// --- wire: what every request asks, see transport.h ---
/// The function of its device that a queue pair's packets leave by, and the one that they reach and are answered from.
inline models::PortRef sending_port(const QueuePair& qp) {
  return qp.route.path != nullptr ? qp.route.path->source : qp.context->port;
}
inline models::PortRef answering_port(const QueuePair& qp) {
  return qp.route.path != nullptr ? qp.route.path->destination : qp.route.peer;
}
/// What was on the way when a queue pair got another path is lost, too: it differs by more than links ever go down.
inline std::uint32_t flaps_of(const System& system, const QueuePair& qp) {
  constexpr std::uint32_t kMove = 1U << 20U;
  return system.port(sending_port(qp)).flaps + system.port(answering_port(qp)).flaps + qp.route.moves * kMove;
}
/// Whether both ends still have the GIDs that the queue pair was connected with. All of its packets, and their
/// acknowledgements, contain both addresses.
inline bool gids_hold(const System& system, const QueuePair& qp) {
  const models::PortRef own = qp.context->port, peer = qp.route.peer;
  if (!system.port(own).gids_changed && !system.port(peer).gids_changed) return true;
  return has_gid(nic_of(system, own), qp.route.source_gid) && has_gid(nic_of(system, peer), qp.route.destination_gid);
}
inline bool path_usable(const System& system, const QueuePair& qp) {
  const bool up =
      qp.route.path != nullptr ? system.network.usable(*qp.route.path) : system.network.port_up(qp.context->port);
  return up && !qp.route.dropped && gids_hold(system, qp);
}
/// What left when the ports had gone down so often (Flight::flaps) arrives now.
inline bool still_arrives(const System& system, const QueuePair& qp, std::uint32_t flaps) {
  return flaps_of(system, qp) == flaps && gids_hold(system, qp);
}
inline void release(System& system, Flight& flight) {
  if (flight.snapshot != nullptr) system.blocks.give(flight.snapshot);
  system.flights.give(&flight);
}

/// The table for the drop-in, filled with functions of this room (table.cpp).
const VerbsBackend& backend_table();

/// "rank 3 node1/rocep1s0f0"
std::string describe(const System& system, const Context& context);

}  // namespace meshbed::sim::verbs

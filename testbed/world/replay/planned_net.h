#pragma once
// PlannedNet: the net plugin's connections as a replay has them, on the chunk fabric: what the engine's channel runs
// call, without the plugin, memory or data.
//
// Of a connection of two ranks (plugin/net/rdma): the receiver posts receives and announces them by clear-to-send
// writes of 32 bytes each, at once or held back (receive_announce.cpp), no write over the end of the ring of 256
// entries; a send finds no place until a clear-to-send has arrived; its data go by one write with immediate data, which
// is done when its acknowledgement is back, a latency after its arrival. Each end has a queue pair, which puts one
// message at a time on its links, and a completion queue, in which its rank may stand still (planned_poll.h). Where
// several cables join the two, the connection has a rail over each further one (rail_layer.h): long messages are split
// over all by striping.h, and the keys of receives for them go before their clear-to-sends.
//
// Not modelled: the timer by which the plugin announces what was held back for ten milliseconds (cts_timer.h), and
// probes of connections that are silent for long.
//
// Cost: four events a message, and the fabric's; memory of O(connections), about 3 KiB each.

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "models/cluster.h"
#include "plugin/base/units.h"
#include "plugin/coll/plan/messages.h"
#include "plugin/coll/plan/protocol.h"
#include "sim/engine/event_queue.h"
#include "sim/engine/fabric.h"
#include "sim/engine/network.h"
#include "sim/replay/replay.h"
#include "testbed/world/replay/planned_poll.h"

namespace meshbed::testbed {

/// Events, instant by instant.
class PlannedTimeline final : public sim::Timeline {
 public:
  void at(Picoseconds when, int host, sim::EventFunction function, void* self, std::uint64_t argument) override {
    queue_.push({when, host, function, self, argument});
  }
  bool empty() const { return queue_.empty(); }
  Picoseconds next_ps() const { return queue_.next_ps(); }
  /// All events of the next instant; how many.
  std::uint64_t run_instant();

 private:
  sim::EventQueue queue_;
};

/// A cable, or a switch, between the sender's port and the receiver's.
struct PlannedLink {
  models::PortRef from, to;
  std::uint32_t mtu_bytes = 4096;
};
/// What a connection goes over: the link of its first queue pair, then those of its rails.
using PlannedWay = std::vector<PlannedLink>;

/// A rank's thread that is to go on: the engine's, or the plugin's service thread, which signals the process.
struct PlannedThread {
  int rank = 0;
  bool is_service = false;
};

struct PlannedTotals {
  std::uint64_t messages = 0, data_messages = 0, payload_bytes = 0;
  std::uint64_t digest = 0;  // over each data message's connection, number and time of arrival, in any order
};

class PlannedNet final : public coll::Messages {
 public:
  static constexpr std::uint32_t kWindow = 8;  // the engine's `steps`

  struct Connection;
  struct End;

  PlannedNet(const models::Cluster& cluster, int ranks, coll::Protocol protocol);
  ~PlannedNet() override;

  /// The connection of channel-and-way `number` from one rank to another; made where it is not there.
  Connection& connection(int from, int to, int number, const PlannedWay& way);
  /// nullptr: it has not been made.
  Connection* find(int from, int to, int number);
  static void* sender_of(Connection& connection);
  static void* receiver_of(Connection& connection);

  // What channel runs call. 0: success.
  int send(void* comm, void* data, std::uint64_t size_bytes, int tag, void* handle, void** request) override;
  int receive(void* comm, void* data, std::uint64_t size_bytes, int tag, void* handle, void** request) override;
  int test(void* request, bool* done, std::uint64_t* size_bytes) override;

  PlannedPoll& poll_of(int rank) { return polls_[static_cast<std::size_t>(rank)]; }
  /// Threads that are to go on, in the order in which they were woken; the caller takes them.
  std::vector<PlannedThread>& woken() { return woken_; }
  /// Something happened to the rank's process.
  void signal(int rank) {
    if (polls_[static_cast<std::size_t>(rank)].signal()) woken_.push_back({.rank = rank});
  }
  /// The rank stands still: it is woken when its pause is over.
  void arm(int rank);
  /// Whether any call has got something done since; and forgets it.
  bool take_moved() { return std::exchange(moved_, false); }
  /// An empty look of the rank at its store.
  void look_at_store(int rank);

  PlannedTimeline& timeline() { return timeline_; }
  const sim::Network& network() const { return network_; }

  /// From now on messages are counted and, where `trace` is no nullptr, recorded, with times from now.
  void begin_measuring(std::vector<sim::ReplayRecord>* trace);
  const PlannedTotals& totals() const { return totals_; }
  /// Of messages that were put on a queue pair and not acknowledged yet.
  std::uint64_t under_way() const { return under_way_; }

 private:
  struct Stream;
  struct Rail;
  std::uint64_t key_of(int from, int to, int number) const;
  Stream& add_stream(Stream& stream, Connection& connection, const PlannedLink& link, bool is_data);
  bool is_striped(const Connection& connection, std::uint64_t wire_bytes) const;
  void post_data(Connection& connection, std::uint64_t wire_bytes);
  void post(Stream& stream, std::uint64_t payload_bytes, std::uint32_t parts);
  void pump(Stream& stream);
  static void sent(void* self, std::uint64_t);
  static void arrived(void* self, std::uint64_t);
  static void acknowledged(void* self, std::uint64_t);
  static void pause_over(void* self, std::uint64_t rank);
  /// One look of `call` at the end's completion queue.
  void look(End& end, PlannedLook::Call call);
  /// What its completion queue, or that of a rail, has; true where there was something.
  bool drain(End& end);
  bool drain(End& end, Rail& rail);
  /// What all rails have brought, or acknowledged, in order.
  static void serve(End& end);
  void announce(End& receiver);
  void hold_back(int rank);
  std::uint64_t& load_of(models::PortRef port) {
    return loads_[static_cast<std::uint64_t>(port.node) << 32U | static_cast<std::uint32_t>(port.nic)];
  }
  sim::ReplayRecord* record_of(std::uint64_t number);

  PlannedTimeline timeline_;
  const models::Cluster& cluster_;
  sim::Network network_;
  std::unique_ptr<sim::Fabric> fabric_;
  const coll::Protocol protocol_;
  std::vector<PlannedPoll> polls_;
  std::vector<PlannedThread> woken_;
  std::vector<bool> holds_;               // [rank] it has held something back
  std::vector<PlannedMark> store_marks_;  // [rank]
  std::deque<Connection> connections_;
  std::unordered_map<std::uint64_t, Connection*> by_ends_;
  std::unordered_map<std::uint64_t, std::uint64_t> loads_;  // by port: bytes posted to it and not seen acknowledged
  std::uint32_t streams_ = 0, queues_ = 1;                  // numbers given; queue 0 is the store
  bool moved_ = false;
  std::uint64_t under_way_ = 0;
  // Of what is measured.
  bool measures_ = false;
  Picoseconds start_ps_ = 0;
  PlannedTotals totals_;
  std::vector<sim::ReplayRecord>* trace_ = nullptr;
};

}  // namespace meshbed::testbed

#pragma once
// Connection: one direction to one peer on one channel, and how it is made. Service thread only.
//
// Both ends make an edge in the same operation; by the plan each knows that the other does so. They meet in the store
// (s: sender, r: receiver, c: channel, n: number of earlier attempts):
//   receiver  listen, publishes h/s/r/c/n = handle    accept until there, closeListen, publishes a/s/r/c/n
//   sender    reads the handle                        connect until there, publishes c/s/r/c/n
// Each end watches the other's outcome, so that "no path" on one side is an error with the same reason on the other,
// at once, instead of a wait. All edges of an operation are polled in turn, none waits for another.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/coll/store/store_client.h"
#include "plugin/coll/transport/direct_messages.h"
#include "plugin/coll/transport/lined_messages.h"
#include "plugin/coll/transport/memory.h"
#include "plugin/coll/transport/transport.h"

namespace meshbed::coll {

enum class Direction : std::uint8_t { kSend, kReceive };

struct Edge {
  int peer = -1;
  int channel = 0;  // beyond the last one: a second connection of the first, ..., over the same device
  Direction direction = Direction::kSend;
  bool operator<(const Edge& other) const {
    return std::tie(peer, channel, direction) < std::tie(other.peer, other.channel, other.direction);
  }
};

struct Connection {
  Edge edge;
  void* comm = nullptr;
  /// Page-aligned, registered, grown between operations.
  struct Staging {
    std::shared_ptr<char> begin;
    std::uint64_t size_bytes = 0;
    bool taken = false;  // from the source of take_staging_from()
  };
  Staging staging;  // kReceive: slots for what must be reduced
  Staging lines;    // slots for what travels in lines
  LinedStream lined;
  DirectStream direct;
};

/// Room for one slot: whole cache lines, and every element's alignment.
constexpr std::uint64_t in_slots(std::uint64_t size_bytes) {
  constexpr std::uint64_t kAlignment = 64;
  return (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// The parts of the communicator that an attempt uses.
struct ConnectContext {
  NetTable& net;
  StoreClient& store;
  int rank;
  const std::vector<int>& channel_devices;  // device index of each channel
  int device_of(const Edge& edge) const {
    return channel_devices[static_cast<std::size_t>(edge.channel) % channel_devices.size()];
  }
};

class ConnectAttempt;

class ConnectionTable {
 public:
  ConnectionTable(const ConnectContext& context, MemoryTable& memory);
  ~ConnectionTable();
  ConnectionTable(const ConnectionTable&) = delete;
  ConnectionTable& operator=(const ConnectionTable&) = delete;

  /// Makes those of `edges`, each once, that are not there yet. All or none: where one fails, this call's others are
  /// closed again, here and (through the outcomes above) at their peers. kUnreachable: we were refused or refused, or
  /// the peer has left; kTimeout: names peer and channel. `timeout_ms`: 0: none.
  Result<void> establish(const std::vector<Edge>& edges, std::int64_t timeout_ms);
  /// In all calls of establish() that succeeded and had something to make.
  std::int64_t connect_ns() const { return connect_ns_; }
  /// Of the last establish(): the peer that its error is about; -1: none in particular.
  int failed_peer() const { return failed_peer_; }
  /// nullptr: not connected.
  Connection* find(const Edge& edge);
  /// At least `size_bytes` of staging memory, registered lazily like any kept region.
  Result<char*> staging_of(Connection& connection, std::uint64_t size_bytes) {
    return grown(connection.staging, size_bytes, source_);
  }
  /// Page-aligned memory of so many bytes, with its owner.
  using MemorySource = std::function<Result<std::shared_ptr<char>>(std::uint64_t size_bytes)>;
  /// From now on staging memory comes from there; what is in use is given up at its next use.
  void take_staging_from(MemorySource source) { source_ = std::move(source); }
  /// For messages of at most `size_bytes` each, `slots` of them under way.
  Result<LinedStream*> lined(Connection& connection, Protocol protocol, std::uint64_t size_bytes, int slots);
  /// For messages from or into GPU memory, `slots` of them under way.
  static DirectStream* direct(Connection& connection, int slots) {
    connection.direct.comm = connection.comm;
    connection.direct.host_handle = nullptr;
    connection.direct.requests.resize(static_cast<std::size_t>(slots));
    return &connection.direct;
  }
  /// Drops all registrations and closes all connections and listeners, with transfers in flight or not.
  void close_all();

 private:
  void close(Connection& connection);
  Result<char*> grown(Connection::Staging& staging, std::uint64_t size_bytes, const MemorySource& source);

  ConnectContext context_;
  MemoryTable& memory_;
  std::map<Edge, Connection> connections_;
  std::map<Edge, std::uint32_t> tries_;
  MemorySource source_;  // empty: the heap
  int failed_peer_ = -1;
  std::int64_t connect_ns_ = 0;
  // Attempts that failed keep their listeners until the next ones begin: a peer that is just connecting should read our
  // reason in the store, not find a closed door.
  std::vector<ConnectAttempt> abandoned_;
};

}  // namespace meshbed::coll

#pragma once
// The connecting side as connect() polls it: directly over a shared subnet if there is one, else through a chain of
// relays, which is searched for first. After a chain has failed, the search begins again within a second, until the
// time is up (NCCL_MESH_CONNECT_TIMEOUT_SEC). Only then, and only if both ends enable it, TCP is used (tcp_network.h),
// because cables through other nodes are faster than any management network. A peer that was searched for in vain is
// reached over TCP at once for a minute. A cable that is present but does not work is no reason for relays or TCP: if
// no other cable leads to the peer, it is an error. If the cable's port goes down during the handshake, the handshake
// moves to another cable at once, or to a chain as soon as one is found; READY was not sent, so the peer's accept() has
// not returned. If further cables lead to the peer, READY waits for them (rail_layer.h), and so do connect() and
// accept().

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/base/result.h"
#include "plugin/net/connect/connecting.h"
#include "plugin/net/connect/whereabouts.h"
#include "plugin/net/process/state.h"
#include "plugin/net/rdma/send.h"
#include "plugin/net/relay/chain_search.h"
#include "plugin/net/tcp/tcp_connecting.h"
#include "plugin/net/wire/handle.h"

namespace meshbed::net {

class Transport;

class PendingConnect {
 public:
  /// Errors (kUnreachable names both sides' subnets) are logged.
  static Result<std::unique_ptr<PendingConnect>> begin(Transport& transport, const Handle& peer, int dev,
                                                       int traffic_class);

  /// The connection, or nullptr: not yet. After an error the object is unusable. Errors are logged.
  Result<std::unique_ptr<Endpoint>> advance();
  /// Call it between two calls of advance(), or while its thread does not run.
  HandshakeState state(std::int64_t now_ns) const;

 private:
  PendingConnect(Transport& transport, const Handle& peer, int dev, int traffic_class);
  /// The direct routes by nics_, the best one first.
  Result<std::vector<Route>> routes_there() const;
  /// For a peer without a direct cable.
  Result<void> go_round(Error no_path);
  /// Connects over the first of `routes`.
  Result<void> go_straight(std::vector<Route> routes);
  /// After a port event: checks whether the handshake's port still works.
  Result<void> look_at_ports();
  /// The handshake over a cable has reached READY, which waits for the other cables. One step.
  bool rails_joined();
  void remember_receiver();
  bool can_search() const;
  void begin_search(Error no_path, bool afresh);
  /// After a failed handshake. Returns the error if there is no other path to try.
  Result<void> try_another(Error error);
  /// The peer's process, or the first relay's, has reported that it no longer has the dialled address.
  bool has_left();
  /// Dials its present address.
  Result<void> follow();
  void abandon();
  /// The search begins again after a pause, which doubles each time.
  void rest();
  /// After a change: the next search begins at once.
  void end_rest();
  /// Returns true if a chain was found and its first QP link has begun. Otherwise a handshake in progress goes on.
  bool try_chain();
  /// No handshake is in progress. Returns an error, or uses TCP, when the time is up.
  Result<void> wait_for_chain();
  /// Why there is no chain.
  Error no_chain() const;
  Result<void> go_through(const std::vector<Hop>& hops);
  bool may_use_tcp() const;
  Error with_hints(Error error) const;
  Result<void> go_by_tcp(std::string why);
  LocalEnd local_end(const Route& route);
  std::int64_t share_of_dials() const;
  static constexpr std::int64_t kShortestRestMs = 1, kLongestRestMs = 1000;

  Transport& transport_;
  Handle peer_;
  int dev_;
  int traffic_class_;
  std::int64_t begun_ns_ = now_ns();
  std::uint32_t events_;  // port_events() before nics_ was read
  std::vector<Nic> nics_;
  std::vector<Route> routes_;  // direct: the one that is tried, then those that were not tried yet
  std::int64_t dial_ms_ = 0;   // for each cable; Destination::dial_ms
  bool no_router_ = false;     // no router replied: only shared subnets and relays remain
  std::unique_ptr<SendConnection> connection_;
  std::unique_ptr<Connecting> connecting_;  // its QP link
  std::unique_ptr<TcpConnecting> tcp_;      // instead of both
  std::optional<Whereabouts> whereabouts_;  // of the dialled process
  // Only where relays are needed, or may be:
  std::unique_ptr<ChainSearch> search_;
  bool through_ = false;  // the handshake goes through a chain
  Error no_path_;
  Deadline give_up_, look_further_;
  // After a chain was refused, which may take no time at all:
  std::string refusal_;
  bool rests_ = false;
  Deadline rest_ends_;
  std::int64_t rest_ms_ = kShortestRestMs;
};

}  // namespace meshbed::net

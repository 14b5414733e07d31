#pragma once
// How a sending connection that lost its QP link gets another one. It tries each cable that still leads to the peer,
// the requested one first, and then relays, until a QP link is connected or the connection gives up. The peer's service
// (resume_server.h) reports what has arrived.

#include <memory>
#include <optional>
#include <string>

#include "plugin/base/deadline.h"
#include "plugin/base/result.h"
#include "plugin/net/connect/connecting.h"
#include "plugin/net/link/qp_link.h"
#include "plugin/net/rdma/relayed_send_path.h"
#include "plugin/net/recover/failback.h"
#include "plugin/net/recover/failed_paths.h"
#include "plugin/net/relay/chain_search.h"
#include "plugin/net/wire/handle.h"

namespace meshbed::net {

class Resumption {
 public:
  /// Looks for a path for `failover_ms`, and waits for each attempt for half of that at most. `lost`, which must
  /// outlive this: cables that are tried last, after relays. `first`: a chain that is tried before anything else;
  /// empty: none.
  Resumption(const Origin& origin, const QpLinkSettings& settings, std::int64_t failover_ms, const FailedPaths& lost,
             std::vector<Hop> first = {});

  struct Resumed {
    std::unique_ptr<QpLink> qp_link;
    std::uint64_t served = 0;               // clear-to-send entries below have been served
    std::optional<CircuitStart> circuit{};  // through relays
    Socket control{};                       // to the first of them
    std::vector<PeerAddress> addresses{};   // the last known addresses of the peer
  };
  /// nullopt: not yet. An error: the peer's connection is gone, so further attempts are useless.
  Result<std::optional<Resumed>> advance();
  /// Whether the present attempt can still succeed, given our ports' present state.
  bool stands() const;
  /// After an error: how many entries the receiver served before its connection ended, if its process still knows.
  std::uint64_t served_in_the_end() const { return served_in_the_end_; }
  /// Why the last attempt failed; empty: there was none.
  const std::string& obstacle() const { return obstacle_; }

 private:
  bool begin_attempt();
  bool try_failed_paths(const std::vector<Nic>& nics);
  bool go_straight(const Route& way, const Nic& nic);
  bool search(const std::vector<Nic>& nics);
  bool go_through(const std::vector<Hop>& hops, const std::vector<Nic>& nics);
  bool open_qp_link(const Route& route, const Nic& nic, QpLinkShape (*shape_on)(const verbs::Device&));
  void begin(Destination destination);
  void note(const std::string& why);
  bool end_round();

  Origin origin_;  // with the last known addresses of the peer
  QpLinkSettings settings_;
  std::int64_t attempt_most_ms_;
  const FailedPaths& lost_;
  std::vector<Hop> first_;               // until it is tried
  std::unique_ptr<ChainSearch> search_;  // after all cables of this round were tried
  Deadline search_ends_;
  bool tried_chain_ = false;             // the chain that the search found, in this round
  std::optional<CircuitStart> circuit_;  // of qp_link_
  std::unique_ptr<QpLink> qp_link_;
  std::unique_ptr<Connecting> connecting_;  // of qp_link_
  std::size_t tried_ = 0;                   // cables, in this round
  std::size_t tried_lost_ = 0;              // cables of lost_, in this round
  Deadline next_round_;
  bool waits_ = false;  // for next_round_
  std::int64_t pause_ms_ = 1;
  std::uint64_t served_in_the_end_ = 0;
  std::string obstacle_;
};

}  // namespace meshbed::net

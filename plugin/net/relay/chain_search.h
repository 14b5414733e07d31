#pragma once
// The search for a chain of relays to a peer without a direct cable. It repeats its queries, because datagrams get lost
// and neighbours may start later, and takes the best chain a short time after it has found the first one.

#include <cstdint>
#include <optional>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/net/connect/connecting.h"
#include "plugin/net/relay/circuit_start.h"
#include "plugin/net/wire/handle.h"
#include "plugin/net/wire/neighbour_map.h"

namespace meshbed::net {

class PeerDiscovery;
class ProcessLinks;

class ChainSearch {
 public:
  /// Time in which every neighbour that will answer has answered. It is shorter for the replacement of a lost path than
  /// at the start of a job, when machines are busy.
  static constexpr std::int64_t kNeighboursLatestMs = 500, kFirstNeighboursLatestMs = 2000;

  /// `dev`: requested by the caller. `patience_ms`: wait for neighbours that have not answered, once a chain was found.
  ChainSearch(ProcessLinks& process, PeerDiscovery& discovery, const Handle& peer, int dev,
              std::int64_t patience_ms = kNeighboursLatestMs)
      : process_(process), discovery_(discovery), peer_(peer), dev_(dev), patience_ms_(patience_ms) {}

  /// Begins; `anew`: with an empty map, because the old one may be older than a cable that was pulled.
  void begin(bool anew);
  /// nullopt: none yet. `nics`: our present NICs.
  std::optional<std::vector<Hop>> advance(const std::vector<Nic>& nics);

  /// From now on queries also nodes further away than the longest chain, so that the error text can mention them. For
  /// the last seconds of a search only, because all nodes of a large fabric reply.
  void look_further();
  /// The length of the shortest chain, if it is too long; nullopt: no chain is known, or a shorter one is.
  std::optional<int> too_long(const std::vector<Nic>& nics) const;

 private:
  static constexpr int kFurthestCables = 32;
  void ask();
  /// `nics`: our present NICs; must live while the request is used.
  ChainRequest request(const std::vector<Nic>& nics) const;

  ProcessLinks& process_;
  PeerDiscovery& discovery_;
  Handle peer_;
  int dev_;
  std::int64_t patience_ms_;
  Deadline next_question_, settled_;
  /// The pause before the next query; doubles each time.
  std::int64_t question_pause_ms_ = 50;
  std::int64_t began_ns_ = 0;
  bool found_ = false;
  bool further_ = false;
};

/// The first QP link of a chain of relays to `peer`, and what the first relay needs.
struct ChainStart {
  Destination destination;
  CircuitStart circuit;
};
/// The route to the first relay of the chain.
Result<Route> route_to_first(const ProcessLinks& process, const std::vector<Hop>& hops, int dev,
                             const std::vector<Nic>& nics);
Result<ChainStart> start_of(ProcessLinks& process, const std::vector<Hop>& hops, const Handle& peer, int dev,
                            const std::vector<Nic>& nics);

}  // namespace meshbed::net

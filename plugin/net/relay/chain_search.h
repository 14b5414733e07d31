#pragma once
// The search for a chain of relays to a peer that no cable leads to: asks around, again and again since questions get
// lost and neighbours start later than we do, and takes the best chain a little after the first one showed.

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
  /// A neighbour that is about to answer has by then. Where a way round is to be made up for one that was lost, there
  /// is less time than in the beginning, when a machine may be busy with much else.
  static constexpr std::int64_t kNeighboursLatestMs = 500, kFirstNeighboursLatestMs = 2000;

  /// `dev`: asked for by the caller. `patience_ms`: with neighbours that have not answered, once a chain was found.
  ChainSearch(ProcessLinks& process, PeerDiscovery& discovery, const Handle& peer, int dev,
              std::int64_t patience_ms = kNeighboursLatestMs)
      : process_(process), discovery_(discovery), peer_(peer), dev_(dev), patience_ms_(patience_ms) {}

  /// Begins, or begins anew with an empty map: the old one may be older than a cable that was pulled.
  void begin(bool anew);
  /// nullopt: none yet. `nics`: ours, as they are now.
  std::optional<std::vector<Hop>> advance(const std::vector<Nic>& nics);

  /// Asks at once, and from now on, nodes that are further away than a chain may be long: to be able to say so. For the
  /// last seconds of a search, since all of a large fabric answers.
  void look_further();
  /// The cables of the shortest chain that is too long; nullopt: there is none as far as is known, or a shorter one.
  std::optional<int> too_long(const std::vector<Nic>& nics) const;

 private:
  static constexpr int kFurthestCables = 32;
  void ask();
  /// `nics`: ours, as they are now; to be kept while the request is used.
  ChainRequest request(const std::vector<Nic>& nics) const;

  ProcessLinks& process_;
  PeerDiscovery& discovery_;
  Handle peer_;
  int dev_;
  std::int64_t patience_ms_;
  Deadline next_question_, settled_;
  /// Asked again after this, then after twice as long.
  std::int64_t question_pause_ms_ = 50;
  std::int64_t began_ns_ = 0;
  bool found_ = false;
  bool further_ = false;
};

/// The first QP link of a chain of relays to `peer`, and what the first relay must know.
struct ChainStart {
  Destination destination;
  CircuitStart circuit;
};
/// By which of our NICs its first relay is reached.
Result<Route> route_to_first(const ProcessLinks& process, const std::vector<Hop>& hops, int dev,
                             const std::vector<Nic>& nics);
Result<ChainStart> start_of(ProcessLinks& process, const std::vector<Hop>& hops, const Handle& peer, int dev,
                            const std::vector<Nic>& nics);

}  // namespace meshbed::net

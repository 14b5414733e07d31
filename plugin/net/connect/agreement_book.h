#pragma once
// One process' state of a cabling agreement: which processes take part, and whether all of them will act on the same
// knowledge. A value without clock or network, so that a test can try every order of arrival.
//
// Each rank of NCCL chooses its algorithms by itself, and ranks that choose differently wait for each other for ever.
// So all ranks must have the same knowledge, and each must know that the others have it. The protocol is an atomic
// commitment in which the remaining processes complete what a dead process left open:
//   - A process votes yes, with a hash of what it knows, when it knows all ranks. It votes no when its time is up, or
//     when it receives a no. A no is final.
//   - Agreed: all processes voted yes with the same hash. A process that knows this has decided, and its announcements
//     carry the decision from then on. None: a process voted no, or yes with another hash.
//   - A process that voted yes and receives nothing more from the others enters doubt, and so does every undecided
//     process that learns of it. From then on it agrees only if it learns that another process has agreed. If all
//     processes are in doubt, none has agreed and none ever will: none. If some stay silent for longer than any
//     connection survives a silence, they are lost to the job and their choice no longer matters: none.
// So no process fails, and no process that can still be reached chooses differently from the others. Loss, repetition
// and order of rank announcements do not change the outcome.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plugin/net/connect/rank_announcement.h"
#include "plugin/net/process/mesh_graph.h"

namespace meshbed::net {

/// The result of a cabling agreement: the cables between the nodes of a communicator.
struct Mesh {
  MeshGraph graph;
  std::vector<IpAddress> names;  // the lowest address of each node; nodes are in the order of these
};

enum class Outcome : std::uint8_t { kOpen, kAgreed, kNone };

class AgreementBook {
 public:
  /// `own`: this process' announcement, still without ranks.
  explicit AgreementBook(RankAnnouncement own) : own_(std::move(own)) { own_.stand = Stand::kComing; }

  /// One more rank of this process.
  void join() {
    ++own_.ranks_here;
    if (own_.stand == Stand::kComing) own_.stand = Stand::kHere;
  }
  /// Set when the first rank joins: the present cables.
  void set_addresses(std::vector<PeerAddress> addresses) { own_.addresses = std::move(addresses); }
  /// Takes in another process' announcement. Returns true if that process still needs ours. `now_ns`: by any clock, for
  /// is_somebody_coming().
  bool hear(const RankAnnouncement& call, std::int64_t now_ns = 0);
  /// True if processes on as many nodes as the communicator has are present, or have announced since `since_ns` that
  /// they are coming. Only members of the communicator announce that (cabling_agreement.h); it is not checked here.
  bool is_somebody_coming(std::int64_t since_ns) const;
  /// Votes if that is possible now. Returns true if it has just voted.
  bool look(bool out_of_time);
  /// Enters doubt after a yes when the wait for the others' votes is over. Returns true if this was not in doubt
  /// before.
  bool doubt();
  /// Ends the doubt: processes that are still silent are lost.
  void give_up();
  Outcome outcome() const { return outcome_; }
  /// Later announcements of the others no longer change our decision.
  void set_done() { own_.done = true; }
  bool everybody_done() const;

  const AgreementKey& key() const { return own_.key; }
  /// The next announcement to send.
  RankAnnouncement speak();
  Stand stand() const { return own_.stand; }
  /// Why there is no agreement: one line.
  const std::string& reason() const { return reason_; }
  /// Valid once this process has voted yes.
  Mesh mesh() const;

 private:
  std::size_t ranks() const;
  std::size_t nodes() const;
  bool refused_by_other();
  void refuse(std::string reason);
  /// Decides if we have voted and the others' votes allow it.
  void decide();
  /// Names of the processes that have neither decided nor entered doubt.
  std::string silent() const;
  std::uint64_t hash() const;
  /// The rank announcements of all processes, ours included, in the order of nodes and processes.
  std::map<std::pair<std::uint64_t, std::uint32_t>, const RankAnnouncement*> everybody() const;

  RankAnnouncement own_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, RankAnnouncement> others_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::int64_t> coming_;  // time of the last announcement
  Outcome outcome_ = Outcome::kOpen;
  std::string reason_;
};

}  // namespace meshbed::net

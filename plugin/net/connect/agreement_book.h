#pragma once
// One process' book of a cabling agreement: who is there, and whether all of them will act on the same knowledge. A
// value without clock or network, so that a test can try every order of what arrives.
//
// Each rank of NCCL chooses algorithms for itself, and ranks that choose differently wait for each other for ever. So
// knowing is not enough; all must know, and know it of each other. The rule is that of an atomic commitment in which
// those who are left end what one who died has left open:
//   - a process says yes when it knows all ranks, with a hash of what it knows; no when its time is up, or when it
//     hears a no. No is final.
//   - agreed: everybody said yes to the same; whoever knows that has decided, and says so for good. None: somebody said
//     no, or yes to something else.
//   - one who said yes and hears no more of others gets into doubt, and so do all who hear of it and have not decided.
//     From then on it agrees only if it hears that somebody has. Where everybody is in doubt nobody has, nor ever will:
//     none. Where some stay silent all the time that it asks, longer than any connection outlasts a silence, they are
//     lost to the job, and what they chose matters to nobody: none.
// So nobody fails, and nobody who can still be reached is left with another choice than the others. Loss, repetition
// and order of rank announcements change nothing.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plugin/net/connect/rank_announcement.h"
#include "plugin/net/process/mesh_graph.h"

namespace meshbed::net {

/// What a cabling agreement brought: the cables between the nodes of a communicator.
struct Mesh {
  MeshGraph graph;
  std::vector<IpAddress> names;  // the lowest address of each node; nodes are in the order of these
};

enum class Outcome : std::uint8_t { kOpen, kAgreed, kNone };

class AgreementBook {
 public:
  /// `own`: what this process says of itself, as yet without ranks.
  explicit AgreementBook(RankAnnouncement own) : own_(std::move(own)) { own_.stand = Stand::kComing; }

  /// One more rank of this process.
  void join() {
    ++own_.ranks_here;
    if (own_.stand == Stand::kComing) own_.stand = Stand::kHere;
  }
  /// With the first rank: the cables that there are now.
  void set_addresses(std::vector<PeerAddress> addresses) { own_.addresses = std::move(addresses); }
  /// What another process said. True: it may not know yet what we say, and does not know enough. `now_ns`: by any
  /// clock, for is_somebody_coming().
  bool hear(const RankAnnouncement& call, std::int64_t now_ns = 0);
  /// Processes on as many nodes as the communicator has are here, or said since `since_ns` that they are coming. Who
  /// says so is in the communicator (cabling_agreement.h): here that cannot be told.
  bool is_somebody_coming(std::int64_t since_ns) const;
  /// Takes a stand, as far as that is possible now. True: it has just done so.
  bool look(bool out_of_time);
  /// Of one who said yes, and has waited for the others' word long enough. True: it was not in doubt before.
  bool doubt();
  /// Of one in doubt, who has asked for so long that whoever has not answered is lost.
  void give_up();
  Outcome outcome() const { return outcome_; }
  /// Nothing that others say matters to us any more.
  void set_done() { own_.done = true; }
  bool everybody_done() const;

  const AgreementKey& key() const { return own_.key; }
  /// What to say next.
  RankAnnouncement speak();
  Stand stand() const { return own_.stand; }
  /// Why there is no agreement: one line.
  const std::string& reason() const { return reason_; }
  /// Once yes was said.
  Mesh mesh() const;

 private:
  std::size_t ranks() const;
  std::size_t nodes() const;
  bool refused_by_other();
  void refuse(std::string reason);
  /// Decides, once a stand was taken and the others' allow it.
  void decide();
  /// Who has not decided nor got into doubt.
  std::string silent() const;
  std::uint64_t hash() const;
  /// Everybody's rank announcement, ours too, in the order of nodes and processes.
  std::map<std::pair<std::uint64_t, std::uint32_t>, const RankAnnouncement*> everybody() const;

  RankAnnouncement own_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, RankAnnouncement> others_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::int64_t> coming_;  // when they said so last
  Outcome outcome_ = Outcome::kOpen;
  std::string reason_;
};

}  // namespace meshbed::net

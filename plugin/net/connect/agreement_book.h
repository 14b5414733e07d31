#pragma once
// One process' book of a cabling agreement: who is there, and whether all of them will act on the same knowledge. A
// value without clock or network, so that a test can try every order of what arrives.
//
// Each rank of NCCL chooses algorithms for itself, and ranks that choose differently wait for each other for ever. So
// knowing is not enough; all must know, and know it of each other. The rule is that of an atomic commitment:
//   - a process says yes when it knows all ranks, with a hash of what it knows; no when its time is up, or when it
//     hears a no. Either is final, and it goes on saying it.
//   - agreed: everybody said yes to the same. None: somebody said no, or yes to something else.
// Nobody who said yes may go by his own clock any more: where the others' answers stay away he knows nothing, and the
// communicator fails with an error instead of a deadlock. Loss, repetition and order of rank announcements change
// nothing.

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
  explicit AgreementBook(RankAnnouncement own) : own_(std::move(own)) {}

  /// One more rank of this process.
  void join() { ++own_.ranks_here; }
  /// What another process said. True: it may not know yet what we say, and does not know enough.
  bool hear(const RankAnnouncement& call);
  /// Takes a stand, as far as that is possible now. True: it has just done so.
  bool look(bool out_of_time);
  Outcome outcome() const;
  /// Nothing that others say matters to us any more.
  void set_done() { own_.done = true; }
  bool everybody_done() const;

  const AgreementKey& key() const { return own_.key; }
  /// What to say next.
  RankAnnouncement speak();
  Stand stand() const { return own_.stand; }
  /// Why there is no agreement: one line.
  const std::string& reason() const { return reason_; }
  /// Who has not answered, for an error's text.
  std::string missing() const;
  /// Once yes was said.
  Mesh mesh() const;

 private:
  std::size_t ranks() const;
  std::size_t nodes() const;
  bool refused_by_other();
  void refuse(std::string reason);
  std::uint64_t hash() const;
  /// Everybody's rank announcement, ours too, in the order of nodes and processes.
  std::map<std::pair<std::uint64_t, std::uint32_t>, const RankAnnouncement*> everybody() const;

  RankAnnouncement own_;
  std::map<std::pair<std::uint64_t, std::uint32_t>, RankAnnouncement> others_;
  std::string reason_;
};

}  // namespace meshbed::net

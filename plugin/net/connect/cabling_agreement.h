#pragma once
// The cabling agreement: the ranks of a communicator find out which cables join their nodes, all of them or none.
// A tuner calls it while its communicator is made. The service thread receives the other processes' announcements, and
// goes on replying for us after we have decided. NCCL loads its tuner when its connections are made, and ranks have
// reached that point up to ten seconds apart. So the service threads, which run by then, announce that ranks are still
// coming. Only processes of the communicator do so: NCCL gives the communicator's number to each net context and to the
// tuner; and only where NCCL uses our tuner. A communicator that shares its parent's resources has no net context of
// its own, so its ranks are not announced as coming: they wait five seconds for each other.

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/base/result.h"
#include "plugin/net/connect/agreement_book.h"
#include "plugin/net/wire/socket.h"

namespace meshbed::net {

class PeerDiscovery;
class ProcessLinks;

class CablingAgreement {
 public:
  /// With more ranks, the announcements themselves would be the load.
  static constexpr std::uint32_t kRanksMost = 64;

  CablingAgreement(ProcessLinks& process, PeerDiscovery& discovery) : process_(process), discovery_(discovery) {}

  /// Blocks until all ranks are known: for NCCL_MESH_TUNER_TIMEOUT_MS at most, and for five seconds at most if ranks
  /// are missing that no node announces as coming. After a yes vote it blocks as long as a connection survives the
  /// silence of the others. nullopt: no rank uses the agreement.
  std::optional<Mesh> take_part(const AgreementKey& key);
  /// On the service thread. `from`: the neighbour that passed it on.
  void take_in(const RankAnnouncement& call, const SocketAddress& from);

 private:
  struct Entry {
    explicit Entry(RankAnnouncement own) : book(std::move(own)) {}
    AgreementBook book;
    Deadline vote, silence;         // to vote no: for missing ranks, and for missing ranks that are not announced
    Deadline promise, doubt;        // after a yes vote, and in doubt
    Stand said = Stand::kComing;    // the stand in our last announcement
    std::int64_t next_call_ns = 0;  // when to send the next announcement
    std::int64_t pause_ns = 0;      // the pause after that one
    std::int64_t last_call_ns = kNever;
    int waiting = 0;  // ranks in take_part()
    bool told = false;
  };
  /// One rank in take_part().
  struct Wait {
    std::optional<Mesh> result;
    Deadline linger;
  };
  struct Heard {
    AgreementKey key;
    std::uint64_t node = 0;
    std::uint32_t process = 0, sequence = 0;
    bool operator==(const Heard&) const = default;
  };
  static constexpr std::int64_t kNever = -1'000'000'000;
  Entry& entry_for(const AgreementKey& key);
  Entry* find(const AgreementKey& key);
  /// True if a rank of this process will join the agreement later: this process is in the communicator, and NCCL uses
  /// our tuner here.
  bool expects(const AgreementKey& key) const;
  /// The entry of a communicator that `heard` waits for and that a rank of ours will join. nullptr: none will.
  Entry* begin_coming(const RankAnnouncement& heard);
  void join(Entry& entry);
  /// Takes the steps whose deadlines have passed.
  void step(Entry& entry) const;
  /// Returns true if this rank has decided; `wait` holds the result.
  bool look(Entry& entry, Wait& wait) const;
  /// After a change: makes the next announcement due now, and shortens the pause after it.
  static void speak_up(Entry& entry);
  /// The announcement that is due now, if any.
  static std::optional<RankAnnouncement> due(Entry& entry);
  void call(const RankAnnouncement& call, const std::optional<IpAddress>& except = std::nullopt);
  /// Returns false if it has been received before.
  bool note(const RankAnnouncement& call);
  void tell(Entry& entry) const;

  ProcessLinks& process_;
  PeerDiscovery& discovery_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::unique_ptr<Entry>> entries_;
  std::array<Heard, 1024> heard_{};
  std::size_t next_heard_ = 0;
};

}  // namespace meshbed::net

#pragma once
// The cabling agreement: the ranks of a communicator find out which cables join their nodes, all of them or none.
// Called by a tuner while its communicator is made; the service thread hears the others, and goes on answering for us
// when we are through. NCCL loads its tuner when its connections are made, and ranks have come there up to ten seconds
// apart: so the service threads, which are there by then, say of ranks that are still to come that they are coming.
// Only those of the communicator's own processes do: NCCL gives its number to each net context, and to the tuner. And
// only where NCCL takes our tuner. A communicator that shares its parent's resources has no net context of its own, so
// nobody says that its ranks are coming: they wait for each other for five seconds.

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
  /// More ranks than that would only keep each other busy with rank announcements.
  static constexpr std::uint32_t kRanksMost = 64;

  CablingAgreement(ProcessLinks& process, PeerDiscovery& discovery) : process_(process), discovery_(discovery) {}

  /// Blocks until all ranks are there: for NCCL_MESH_TUNER_TIMEOUT_MS at most, and no more than five seconds for those
  /// of nodes where nobody says that they are coming. Then, if it has given its word and hears of others no more, for
  /// as long as a connection outlasts that. nullopt: all ranks do without.
  std::optional<Mesh> take_part(const AgreementKey& key);
  /// On the service thread. `from`: the neighbour who handed it on.
  void take_in(const RankAnnouncement& call, const SocketAddress& from);

 private:
  struct Entry {
    explicit Entry(RankAnnouncement own) : book(std::move(own)) {}
    AgreementBook book;
    Deadline vote, silence;         // to say no: when all are awaited, and when only those who say nothing are
    Deadline promise, doubt;        // of one who said yes, and of one in doubt
    Stand said = Stand::kComing;    // what the others were told last
    std::int64_t next_call_ns = 0;  // when to speak, unasked
    std::int64_t pause_ns = 0;      // then
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
  /// A rank of this process, which is not there yet, will come to the agreement: it is in the communicator, and NCCL
  /// takes our tuner here.
  bool expects(const AgreementKey& key) const;
  /// Of a communicator that somebody waits for, and that a rank of ours will come to. nullptr: none will.
  Entry* begin_coming(const RankAnnouncement& heard);
  void join(Entry& entry);
  /// Takes the steps that are due by the clock.
  void step(Entry& entry) const;
  /// True: `wait` holds what this rank goes on with.
  bool look(Entry& entry, Wait& wait) const;
  /// Something changed: say so at once, and again soon.
  static void speak_up(Entry& entry);
  /// What to say now, if anything.
  static std::optional<RankAnnouncement> due(Entry& entry);
  void call(const RankAnnouncement& call, const std::optional<IpAddress>& except = std::nullopt);
  /// False: heard before.
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

#pragma once
// The cabling agreement: the ranks of a communicator find out which cables join their nodes, all of them or none.
// Called by a tuner while its communicator is made; the service thread hears the others, and goes on answering for us
// when we are through.

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/net/connect/agreement_book.h"
#include "plugin/net/process/clock.h"
#include "plugin/net/wire/socket.h"

namespace meshbed::net {

class PeerDiscovery;
class ProcessLinks;

class CablingAgreement {
 public:
  /// More ranks than that would only keep each other busy with rank announcements.
  static constexpr std::uint32_t kRanksMost = 64;

  CablingAgreement(ProcessLinks& process, PeerDiscovery& discovery) : process_(process), discovery_(discovery) {}

  /// Blocks for NCCL_MESH_TUNER_TIMEOUT_MS at most until all ranks are there. nullopt: all ranks do without. An error,
  /// after 20 s more: this rank gave its word and cannot learn what became of it.
  Result<std::optional<Mesh>> take_part(const AgreementKey& key);
  /// On the service thread. `from`: the neighbour who handed it on.
  void take_in(const RankAnnouncement& call, const SocketAddress& from);

 private:
  struct Entry {
    explicit Entry(RankAnnouncement own) : book(std::move(own)) {}
    AgreementBook book;
    Deadline vote, promise;
    std::int64_t next_call_ns = 0;  // when to speak, unasked
    std::int64_t pause_ns = 0;      // then
    std::int64_t last_call_ns = 0;
    int waiting = 0;  // ranks in take_part()
    bool told = false;
  };
  /// One rank in take_part().
  struct Wait {
    Result<std::optional<Mesh>> result = std::optional<Mesh>();
    Deadline linger;
  };
  struct Heard {
    AgreementKey key;
    std::uint64_t node = 0;
    std::uint32_t process = 0, sequence = 0;
    bool operator==(const Heard&) const = default;
  };
  Entry& entry_for(const AgreementKey& key);
  Entry* find(const AgreementKey& key);
  /// True: `wait` holds what this rank goes on with.
  bool look(Entry& entry, Wait& wait) const;
  Error broken_promise(const AgreementBook& book) const;
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

#pragma once
// The processes that may still need a relay: those that sent a query for chains or appear in an answer, except those
// that have sent LEAVE (discovery_message.h). A process that ends checks here whether it is needed, which is so if two
// others reach each other through it alone. Pure values.
//
// A way is a NIC of ours on which messages of a process arrive, as a bit. Queries are flooded over all cables, but
// never through us and back to us: so two processes whose messages arrive by the same way reach each other without us.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plugin/net/process/peer_address.h"

namespace meshbed::net {

class Attendance {
 public:
  /// Bound on the members, since any host may send to a UDP port. Further processes are not kept.
  static constexpr std::size_t kMost = 1024;

  struct Who {
    std::uint64_t node = 0;
    std::uint32_t process = 0;
    std::uint16_t circuit_port = 0;  // known from an ANSWER only
  };

  /// The process' own query arrived by `way`, which is added to the ways by which this query has arrived before. It is
  /// present, even if it had left: it may have been initialized again.
  void asked(const Who& who, std::uint64_t query, std::uint64_t way);
  /// Its ANSWER arrived, for us or to be passed on. A process that has left still answers while its relay stays.
  void answered(const Who& who, std::uint64_t way, const std::vector<PeerAddress>& addresses);
  void left(const Who& who);
  /// No peer has ever queried us, so no LEAVE needs to be sent.
  bool is_empty() const { return members_.empty(); }
  /// True if two members of different nodes share no subnet and are known by different ways, counting only the ways in
  /// `open`. If only an ANSWER of a member has arrived, there may still be another way round; then we wait a little
  /// longer than needed. Cost: the square of the members.
  bool need_us(std::uint64_t open) const;
  /// Removes the members that have not left: they must answer again to count.
  void forget_present();

 private:
  struct Member {
    Who who;
    bool left = false;
    std::uint64_t query = 0, ways = 0;
    std::vector<PeerAddress> addresses;  // empty: not known
  };
  /// nullptr: there is no room.
  Member* member(const Who& who);
  static bool apart(const Member& one, const Member& other, std::uint64_t open);

  std::vector<Member> members_;
};

}  // namespace meshbed::net
